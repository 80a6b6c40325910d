"""Exercises the turbopuffer API with the official Python client.

Against the emulator:      TURBOPUFFER_BASE_URL=http://127.0.0.1:PORT TURBOPUFFER_API_KEY=test SIM=1
Against the real service:  TURBOPUFFER_BASE_URL=https://REGION.turbopuffer.com TURBOPUFFER_API_KEY=...

SIM=1 adds the checks that need the emulator's control endpoint. Namespaces have a random
prefix and are deleted at the end.
"""

import json
import os
import secrets
import time
import urllib.request
import uuid

os.environ.pop("TURBOPUFFER_REGION", None)

import turbopuffer  # noqa: E402

BASE_URL = os.environ["TURBOPUFFER_BASE_URL"]
API_KEY = os.environ["TURBOPUFFER_API_KEY"]
SIM = os.environ.get("SIM") == "1"
PREFIX = f"sim-conformance-{secrets.token_hex(6)}-"
U64_MAX = 2**64 - 1

client = turbopuffer.Turbopuffer(api_key=API_KEY, base_url=BASE_URL, max_retries=0)

NEWER = ("Or", [("version", "Lt", {"$ref_new": "version"}), ("version", "Eq", None)])
SCHEMA = {"id": "uint", "version": "uint", "deleted": "bool", "title": "string", "n": "int"}


def namespace(name):
    return client.namespace(PREFIX + name)


def refused(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError(f"expected {error.__name__}")


def rows(ns, **query):
    query.setdefault("limit", 1000)
    query.setdefault("rank_by", ("id", "asc"))
    return ns.query(**query).rows


def ids(ns, filters, **query):
    return [row.id for row in rows(ns, filters=filters, **query)]


def control(method, path, body=None):
    request = urllib.request.Request(
        BASE_URL + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
    )
    return json.load(urllib.request.urlopen(request))


def upserts_by_rows_and_by_columns():
    ns = namespace("upserts")
    answer = ns.write(
        upsert_rows=[
            {"id": 1, "version": 1, "deleted": False, "title": "one", "n": -5},
            {"id": 2, "version": 1, "deleted": True},
        ],
        schema=SCHEMA,
    )
    assert answer.status == "OK" and answer.rows_affected == 2 and answer.rows_upserted == 2
    answer = ns.write(
        upsert_columns={"id": [3, U64_MAX], "version": [7, U64_MAX], "title": ["three", None]},
        schema=SCHEMA,
        return_affected_ids=True,
        disable_backpressure=True,
    )
    assert answer.upserted_ids == [3, U64_MAX], answer
    found = rows(ns, include_attributes=True)
    assert [row.id for row in found] == [1, 2, 3, U64_MAX]
    assert found[0].title == "one" and found[0].n == -5 and found[0].deleted is False
    assert "title" not in found[1], "null attributes are omitted"
    assert found[3].version == U64_MAX, "u64 is exact"
    # An upsert replaces the whole document.
    ns.write(upsert_rows=[{"id": 1, "version": 2}])
    assert "title" not in rows(ns, include_attributes=True)[0]


def conditions_keep_the_newer_document():
    ns = namespace("conditions")
    ns.write(upsert_rows=[{"id": 1, "version": 5}, {"id": 2, "n": 1}], schema=SCHEMA)

    def upsert(version, **more):
        return ns.write(
            upsert_rows=[{"id": id, "version": version, "n": version} for id in (1, 2, 3)],
            upsert_condition=NEWER,
            schema=SCHEMA,
            create_namespace=False,
            **more,
        )

    # Older than 1; 2 has no version; 3 is missing.
    answer = upsert(4, return_affected_ids=True)
    assert answer.rows_upserted == answer.rows_affected == 2 and answer.upserted_ids == [2, 3]
    assert upsert(4).rows_affected == 0, "a replay is skipped"
    assert upsert(6).rows_affected == 3

    answer = ns.write(
        patch_rows=[{"id": 1, "version": 9}, {"id": 77, "version": 9}],
        patch_condition=("And", [("version", "Lt", {"$ref_new": "version"})]),
    )
    assert answer.rows_patched == 1
    answer = ns.write(
        patch_rows=[{"id": 1, "version": 9}],
        patch_condition=("version", "Lt", {"$ref_new": "version"}),
    )
    assert answer.rows_patched == 0
    assert ids(ns, None) == [1, 2, 3], "a patch never creates"
    answer = ns.write(deletes=[1, 2, 3], delete_condition=("Not", ("version", "Gte", 9)))
    assert answer.rows_deleted == 2 and ids(ns, None) == [1]
    # Insert if absent.
    for expected in (1, 0):
        answer = ns.write(upsert_rows=[{"id": 50, "version": 1}], upsert_condition=("id", "Eq", None))
        assert answer.rows_upserted == expected


def patches_and_deletes():
    ns = namespace("patches")
    ns.write(upsert_columns={"id": [1, 2, 3], "n": [1, 2, 3], "title": ["a", "b", "c"]}, schema=SCHEMA)
    answer = ns.write(patch_columns={"id": [1, 9], "n": [10, 90]})
    assert answer.rows_patched == 1
    ns.write(patch_rows=[{"id": 2, "title": None}], deletes=[3])
    found = rows(ns, include_attributes=["n", "title"])
    assert [(row.id, row.n) for row in found] == [(1, 10), (2, 2)]
    assert found[0].title == "a" and "title" not in found[1]


def by_filter_operations():
    ns = namespace("byfilter")
    ns.write(upsert_columns={"id": list(range(20)), "n": list(range(20))}, schema=SCHEMA)
    answer = ns.write(delete_by_filter=("n", "Gte", 15), delete_by_filter_allow_partial=True)
    assert answer.rows_deleted == 5 and answer.rows_remaining is False
    answer = ns.write(patch_by_filter={"filters": ("n", "Lt", 3), "patch": {"title": "low"}})
    assert answer.rows_patched == 3
    answer = ns.write(delete_by_filter=("n", "Gte", 1000))
    assert answer.rows_affected == 0 and answer.rows_deleted == 0
    # The filter runs first: the upserted row stays although it matches.
    ns.write(delete_by_filter=("title", "Eq", "low"), upsert_rows=[{"id": 100, "title": "low"}])
    assert ids(ns, ("title", "Eq", "low")) == [100]
    if SIM:
        control("POST", "/_sim/faults", [{"fault": {"by_filter_rows": 5}}, {"fault": {"by_filter_rows": 5}}])
        refused(turbopuffer.BadRequestError, lambda: ns.write(delete_by_filter=("n", "Gte", 3)))
        answer = ns.write(delete_by_filter=("n", "Gte", 3), delete_by_filter_allow_partial=True)
        assert answer.rows_deleted == 5 and answer.rows_remaining is True


def queries_filter_order_and_aggregate():
    ns = namespace("queries")
    ns.write(
        upsert_rows=[
            {"id": 1, "n": 10, "title": "a", "tags": ["x", "y"], "at": "2024-03-02", "price": 5},
            {"id": 2, "n": 30, "title": "b", "tags": ["y"], "price": 9.99},
            {"id": 3, "n": 20, "title": "a", "at": "2024-03-02T01:02:03.123456Z"},
            {"id": 4, "title": "b"},
        ],
        schema={**SCHEMA, "tags": "[]string", "at": "datetime", "price": "float"},
    )
    cases = [
        (("n", "Eq", 10), [1]),
        (("n", "Eq", None), [4]),
        (("n", "NotEq", None), [1, 2, 3]),
        (("n", "NotEq", 10), [2, 3, 4]),
        (("n", "Lt", 20), [1, 4]),
        (("n", "Lte", 20), [1, 3, 4]),
        (("n", "Gt", 10), [2, 3]),
        (("n", "Gte", 10), [1, 2, 3]),
        (("id", "In", [1, 4, 9]), [1, 4]),
        (("title", "NotIn", ["a"]), [2, 4]),
        (("tags", "Contains", "y"), [1, 2]),
        (("tags", "NotContains", "y"), [3, 4]),
        (("tags", "ContainsAny", ["x", "z"]), [1]),
        (("at", "Gt", "2024-03-02T00:30:00Z"), [3]),
        (("Not", ("Or", [("n", "Eq", 10), ("title", "Eq", "b")])), [3]),
        (("And", [("id", "Gt", 1), ("title", "Eq", "a")]), [3]),
    ]
    for filters, expected in cases:
        assert ids(ns, filters) == expected, filters
    assert ids(ns, None, rank_by=("n", "asc")) == [4, 1, 3, 2], "nulls first"
    assert ids(ns, None, rank_by=("n", "desc")) == [2, 3, 1, 4], "nulls last"
    assert ids(ns, None, rank_by=("id", "desc"), limit=2) == [4, 3]
    assert ids(ns, None, limit=2, offset=1) == [2, 3]
    row = rows(ns, exclude_attributes=["title"])[2]
    assert row.at.startswith("2024-03-02T01:02:03.123"), row.at
    assert "title" not in row and row.n == 20
    eventual = ns.query(rank_by=("id", "asc"), top_k=1, consistency={"level": "eventual"})
    assert len(eventual.rows) == 1 and eventual.performance.cache_hit_ratio is not None

    answer = ns.query(aggregate_by={"count": ("Count",), "sum": ("Sum", "n")})
    assert answer.aggregations == {"count": 4, "sum": 60}, answer
    answer = ns.query(aggregate_by={"count": ("Count",)}, group_by=["title"], limit=10)
    assert answer.aggregation_groups == [{"title": "a", "count": 2}, {"title": "b", "count": 2}]
    answer = ns.multi_query(
        queries=[
            {"rank_by": ("id", "asc"), "limit": 1, "include_attributes": ["n"]},
            {"aggregate_by": {"count": ("Count",)}},
        ],
        consistency={"level": "strong"},
    )
    assert answer.results[0].rows[0].n == 10
    assert answer.results[1].aggregations["count"] == 4


def vectors_are_ranked():
    ns = namespace("vectors")
    for _ in range(2):
        ns.write(
            upsert_rows=[{"id": 1, "vector": [1.0, 0.0]}, {"id": 2, "vector": [0.0, 1.0]}],
            distance_metric="cosine_distance",
            schema={"id": "uint", "vector": {"type": "[2]f32", "ann": True}},
        )
    found = rows(ns, rank_by=("vector", "ANN", [0.1, 1.0]), include_attributes=["vector"])
    assert [row.id for row in found] == [2, 1]
    assert found[0].vector == [0.0, 1.0] and found[0]["$dist"] < 0.1
    encoded = rows(ns, vector_encoding="base64", include_attributes=["vector"])[0].vector
    assert encoded == "AACAPwAAAAA=" or encoded == [1.0, 0.0], encoded
    refused(turbopuffer.BadRequestError, lambda: ns.write(upsert_rows=[{"id": 3}]))
    refused(
        turbopuffer.BadRequestError,
        lambda: ns.write(upsert_rows=[{"id": 3, "vector": [1.0, 2.0, 3.0]}]),
    )
    refused(
        turbopuffer.BadRequestError,
        lambda: ns.write(patch_rows=[{"id": 1, "vector": [1.0, 2.0]}]),
    )


def ids_have_one_kind():
    ns = namespace("uuids")
    id = uuid.uuid4()
    ns.write(upsert_rows=[{"id": id, "n": 1}], schema={"id": "uuid"})
    assert str(rows(ns)[0].id) == str(id)
    refused(turbopuffer.BadRequestError, lambda: ns.write(upsert_rows=[{"id": 1}]))
    strings = namespace("strings")
    strings.write(upsert_rows=[{"id": "x" * 64, "n": 1}])
    refused(turbopuffer.BadRequestError, lambda: strings.write(upsert_rows=[{"id": "x" * 65}]))
    refused(turbopuffer.BadRequestError, lambda: strings.write(upsert_rows=[{"id": 1}]))


def namespaces_are_listed_described_and_deleted():
    ns = namespace("life")
    assert not ns.exists()
    refused(
        turbopuffer.NotFoundError,
        lambda: ns.write(upsert_rows=[{"id": 1}], create_namespace=False),
    )
    ns.write(create_namespace=True, schema=SCHEMA)
    assert ns.exists() and rows(ns) == []
    ns.write(upsert_rows=[{"id": 1, "title": "a"}])
    schema = ns.schema()
    assert schema["id"].type == "uint" and schema["title"].type == "string"
    assert schema["title"].filterable is True
    ns.update_schema(schema={"title": {"type": "string", "filterable": False}})
    assert ns.schema()["title"].filterable is False
    refused(turbopuffer.BadRequestError, lambda: ids(ns, ("title", "Eq", "a")))
    metadata = ns.metadata()
    assert metadata.schema_["version"].type == "uint"
    assert metadata.index.status in ("up-to-date", "updating")
    ns.hint_cache_warm()
    for name in ("list-a", "list-b", "list-c"):
        namespace(name).write(upsert_rows=[{"id": 1}])
    listed = [found.id for found in client.namespaces(prefix=PREFIX + "list-", page_size=2)]
    assert listed == [PREFIX + "list-" + letter for letter in "abc"], listed
    assert ns.delete_all().status == "OK"
    assert not ns.exists()
    refused(turbopuffer.NotFoundError, ns.delete_all)
    refused(turbopuffer.NotFoundError, lambda: rows(ns))
    ns.write(upsert_rows=[{"id": "now a string"}])


def refusals_have_their_classes():
    ns = namespace("errors")
    ns.write(upsert_rows=[{"id": 1, "n": 1, "title": "a"}], schema=SCHEMA)
    for body in (
        {"upsert_rows": [{"id": 2}, {"id": 2}]},
        {"upsert_rows": [{"id": 2, "n": 9.99}]},
        {"upsert_rows": [{"id": 2, "n": "text"}]},
        {"upsert_rows": [{"id": -2}]},
        {"upsert_rows": [{"id": 2, "title": "x" * 4097}]},
        {"upsert_rows": [{"id": 2, "$n": 1}]},
        {"upsert_rows": [{"id": 2}], "deletes": [2]},
        {"upsert_rows": [{"id": 2}], "schema": {"n": "float"}},
        {"upsert_columns": {"id": [2, 3], "n": [1]}},
    ):
        error = refused(turbopuffer.BadRequestError, lambda: ns.write(**body))
        assert error.body["status"] == "error", error.body
    error = refused(
        turbopuffer.BadRequestError, lambda: ns.write(upsert_rows=[{"id": 2, "n": 9.99}])
    )
    assert "number cannot be represented as signed 64-bit integer" in str(error)
    assert ids(ns, None) == [1], "a refused write changes nothing"

    error = refused(
        turbopuffer.UnprocessableEntityError,
        lambda: ns.write(extra_body={"upsert_rows": {"id": 1}}),
    )
    assert "invalid type: map, expected a sequence" in str(error)
    error = refused(
        turbopuffer.UnprocessableEntityError,
        lambda: rows(ns, consistency={"level": "nonexistentvalue"}),
    )
    assert "unknown variant `nonexistentvalue`, expected `strong` or `eventual`" in str(error)
    error = refused(
        turbopuffer.UnprocessableEntityError, lambda: rows(ns, consistency="eventual")
    )
    assert 'invalid type: string "eventual", expected struct Consistency' in str(error)
    stranger = turbopuffer.Turbopuffer(api_key="tpuf_wrong", base_url=BASE_URL, max_retries=0)
    refused(turbopuffer.AuthenticationError, lambda: rows(stranger.namespace(PREFIX + "errors")))


def faults_are_seen_and_retried():
    ns = namespace("faults")
    path = f"/v2/namespaces/{PREFIX}faults"
    match = {"method": "POST", "path_prefix": path}
    ns.write(upsert_rows=[{"id": 1, "version": 1}], schema=SCHEMA)
    limited = {"match": match, "fault": {"status": 429, "retry_after_s": 1}}

    control("POST", "/_sim/faults", [limited])
    refused(turbopuffer.RateLimitError, lambda: ns.write(upsert_rows=[{"id": 2}]))
    assert ids(ns, None) == [1]

    patient = turbopuffer.Turbopuffer(api_key=API_KEY, base_url=BASE_URL, max_retries=2)
    control("POST", "/_sim/faults", [limited])
    started = time.monotonic()
    patient.namespace(PREFIX + "faults").write(upsert_rows=[{"id": 2}])
    assert time.monotonic() - started >= 0.9, "retry-after is honoured"

    control("POST", "/_sim/faults", [{"match": match, "fault": {"drop_after_apply": True}}])
    refused(turbopuffer.APIConnectionError, lambda: ns.write(upsert_rows=[{"id": 3}]))
    assert ids(ns, None) == [1, 2, 3], "the dropped write was applied"

    control("POST", "/_sim/faults", [{"match": match, "fault": {"reset": True}}])
    refused(turbopuffer.APIConnectionError, lambda: ns.write(upsert_rows=[{"id": 4}]))
    control("POST", "/_sim/faults", [{"match": match, "fault": {"status": 503}}])
    refused(turbopuffer.InternalServerError, lambda: ns.write(upsert_rows=[{"id": 4}]))
    assert ids(ns, None) == [1, 2, 3]

    summaries = [s for s in control("GET", "/_sim/requests")["last"] if s["path"] == path]
    assert [s["status"] for s in summaries] == [200, 429, 429, 200, None, None, 503]


def gzip_bodies_are_accepted():
    ns = turbopuffer.Turbopuffer(
        api_key=API_KEY, base_url=BASE_URL, max_retries=0, compression=True
    ).namespace(PREFIX + "gzip")
    ns.write(upsert_columns={"id": list(range(1000)), "title": ["same"] * 1000})
    assert ns.query(aggregate_by={"count": ("Count",)}).aggregations["count"] == 1000


def main():
    checks = [
        upserts_by_rows_and_by_columns,
        conditions_keep_the_newer_document,
        patches_and_deletes,
        by_filter_operations,
        queries_filter_order_and_aggregate,
        vectors_are_ranked,
        ids_have_one_kind,
        namespaces_are_listed_described_and_deleted,
        refusals_have_their_classes,
        gzip_bodies_are_accepted,
    ]
    if SIM:
        checks.append(faults_are_seen_and_retried)
    try:
        for check in checks:
            check()
            print("ok", check.__name__, flush=True)
    finally:
        for found in client.namespaces(prefix=PREFIX):
            client.namespace(found.id).delete_all()


main()

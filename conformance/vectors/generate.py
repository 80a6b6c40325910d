#!/usr/bin/env python3
"""Makes recorded_streams.json from the recordings of a real server, and keys.json.

What is expected of a recording is folded here, by the few rules of the protocol and without the core, so that
the two are held against each other:

- the first progress row is AS OF, and closes nothing; later ones close what is below them,
  but never beyond UP TO;
- the snapshot is one batch, what follows is another;
- a key violation is left out of a snapshot, and is a delete of its key later on;
- the end of a stream closes everything below UP TO.

A key is the SHA-256 of a JSON array in canonical form (RFC 8785).

Run it in this folder without arguments; it needs Python 3 alone.
"""

import gzip
import hashlib
import itertools
import json
import re
from pathlib import Path

RECORDINGS = Path(__file__).parent.parent / "recordings"
CLOSED = 2**64 - 1
# A longer stream is cut: its beginning says as much.
BYTES = 50_000

TYPES = {
    16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text",
    26: "oid", 700: "real", 701: "double precision", 1042: "character", 1043: "character varying",
    1082: "date", 1083: "time", 1114: "timestamp without time zone",
    1184: "timestamp with time zone", 1186: "interval", 1700: "numeric", 2950: "uuid",
    3802: "jsonb", 16460: "uint2", 16462: "uint4", 16464: "uint8", 16552: "mz_timestamp",
}


def lines(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as file:
        return [json.loads(line) for line in file]


def scenario(path):
    return path.name.split(".")[0]


def wire_streams(path):
    """The subscriptions of a scenario with the rows that came."""
    open_streams, found = {}, []
    for line in lines(path):
        conn = line.get("conn")
        sql = line.get("query") or line.get("extended")
        if sql and "SUBSCRIBE" in sql and "PROGRESS" in sql and not re.search("^COPY|DEBEZIUM", sql):
            sql = sql.replace("$1", str((line.get("params") or ["$1"])[0]))
            if line.get("binary") or "$" in sql:
                continue
            open_streams[conn] = {"sql": sql, "names": None, "rows": [], "end": False}
            found.append(open_streams[conn])
            if not sql.startswith("DECLARE"):
                open_streams[conn]["waits_for_end"] = True
        stream = open_streams.get(conn)
        if stream is None:
            continue
        if sql and not ("SUBSCRIBE" in sql or sql.startswith("FETCH")):
            del open_streams[conn]
            continue
        if sql and sql.startswith("FETCH"):
            # Only a FETCH that would wait for ever tells by being empty that nothing comes.
            stream["waits_for_end"] = sql.startswith("FETCH ALL") and "timeout" not in sql
            if "binary" in line and line["binary"]:
                del open_streams[conn]
                continue
        if "RowDescription" in line:
            columns = line["RowDescription"]
            if columns and columns[0]["name"] == "mz_timestamp":
                stream["names"] = columns
        if "DataRow" in line:
            stream["rows"].append(line["DataRow"])
        if "CommandComplete" in line:
            done = line["CommandComplete"].startswith(("FETCH 0", "SUBSCRIBE"))
            stream["end"] |= done and stream.get("waits_for_end", False)
        if "ErrorResponse" in line:
            stream["end"] = False
            del open_streams[conn]
    return [stream for stream in found if stream["names"] and stream["rows"]]


def view_of(stream):
    sql = stream["sql"]
    key = re.search(r"KEY \(([^)]*)\)", sql)
    data = [c for c in stream["names"] if not re.match(r"mz_(timestamp|progressed|state|diff)$", c["name"])]
    columns = [
        {
            "name": c["name"],
            "type": TYPES.get(c["oid"], f"other {c['oid']}"),
            "type_mod": c["typmod"],
            "nullable": True,
        }
        for c in data
    ]
    return columns, [k.strip() for k in key.group(1).split(",")] if key else []


def case(name, recording, sql, columns, key, names, rows, end):
    as_of = re.search(r"AS OF (\d+)", sql)
    up_to = re.search(r"UP TO (\d+)", sql)
    up_to = int(up_to.group(1)) if up_to else None
    if "SNAPSHOT = false" in sql:
        start = {"resume": int(as_of.group(1)) + 1}
    else:
        start = {"snapshot-at": int(as_of.group(1))} if as_of else "snapshot"
    sizes = itertools.accumulate(len(json.dumps(row)) for row in rows)
    short = [row for row, size in zip(rows, sizes) if size <= BYTES]
    if len(short) < len(rows):
        rows, end = short, False
    source = {
        "envelope": "upsert" if key else "diff",
        "key": key,
        "columns": columns,
        "start": start,
        "up_to": up_to,
        "names": names,
        "rows": rows,
        "end": end,
    }
    return {
        "name": name,
        "why": f"what a real server sent for {sql.removeprefix('DECLARE c CURSOR FOR ')}",
        "recording": recording,
        "generated": True,
        "input": source,
        "expected": fold(source),
    }


def fold(source):
    names, key = source["names"], source["key"]
    start = source["start"]
    at = {name: names.index(name) for name in names}
    state = at.get("mz_state")
    as_of, frontier, changes = None, 0, []
    bound = source["up_to"] if source["up_to"] is not None else CLOSED
    for row in source["rows"]:
        time = int(row[at["mz_timestamp"]])
        if row[at["mz_progressed"]] == "t":
            if as_of is None:
                as_of = frontier = time
            else:
                frontier = max(frontier, min(time, bound))
            continue
        values = [row[at[c["name"]]] for c in source["columns"]]
        if state is None:
            diff = int(row[at["mz_diff"]])
            changes.append([time, "put" if diff > 0 else "delete", abs(diff), values])
        elif row[state] == "upsert":
            changes.append([time, "put", 1, values])
        else:
            is_snapshot = not (isinstance(start, dict) and "resume" in start) and time == as_of
            if row[state] == "key_violation" and is_snapshot:
                continue
            kept = [v if c["name"] in key else None for v, c in zip(values, source["columns"])]
            changes.append([time, "delete", 1, kept])
    if source["end"]:
        frontier = max(frontier, bound)
    batches, lower = [], None
    if isinstance(start, dict) and "resume" in start:
        lower = start["resume"]
    elif as_of is not None and frontier > as_of:
        rows = [c for c in changes if c[0] == as_of]
        batches.append({"upper": str(as_of + 1), "snapshot": True, "rows": rows})
        lower = as_of + 1
    if lower is not None and frontier > lower:
        rows = [c for c in changes if lower <= c[0] < frontier]
        batches.append({"upper": str(frontier), "snapshot": False, "rows": rows})
    return batches


def digest(parts):
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


T = "1796084174074"
LATER = "1796084175000"
KV = [("k", "bigint"), ("v", "text")]
COMPOSITE = [("a", "integer"), ("b", "text"), ("c", "integer")]
UPSERT = ["mz_timestamp", "mz_progressed", "mz_state"]
DIFF = ["mz_timestamp", "mz_progressed", "mz_diff"]


def named(name, why, changes, *, columns=KV, key=("k",), envelope="upsert", sink_id="sink", view="v", snapshot=False, blocks=None):
    """`changes` are a time, what it does, and values in the order of the columns."""
    head = UPSERT if envelope == "upsert" else DIFF
    first = str(int(changes[0][0]) - 1)
    nothing = [None] * (1 + len(columns))
    rows = [[first, "t", *nothing]]
    last = None
    for time, does, *values in changes:
        if blocks and last is not None and last != time:
            rows.append([time, "t", *nothing])
        rows.append([time, "f", does, *values])
        last = time
    rows.append([str(int(changes[-1][0]) + 1), "t", *nothing])
    at = [[c for c, _ in columns].index(k) for k in key]
    expected, ordinal, last = [], 0, None
    for time, does, *values in changes:
        ordinal = 0 if time != last else ordinal + 1
        last = time
        of = [values[i] for i in at]
        kind = "snapshot" if snapshot else "change"
        expected.append({
            "idempotency": digest([kind, sink_id, view, time, of, ordinal]),
            "correlation": digest([sink_id, view, of]),
        })
    return {
        "name": name,
        "why": why,
        "generated": True,
        "input": {
            "sink_id": sink_id,
            "view": view,
            "envelope": envelope,
            "key": list(key),
            "columns": [{"name": c, "type": t, "nullable": True} for c, t in columns],
            "start": {"resume": int(first) + 1},
            "names": head + [c for c, _ in columns],
            "rows": rows,
            "snapshot": snapshot,
        },
        "expected": expected,
    }


def keys():
    put = [(T, "upsert", "1", "a")]
    typed = [
        ("negative integer", "bigint", "-9223372036854775808", "no number is rounded on its way into a key"),
        ("large unsigned", "uint8", "18446744073709551615", "beyond what JSON readers keep"),
        ("numeric with its scale", "numeric", "1.50", "the server's own text, zeros and all"),
        ("float", "double precision", "0.1", "the shortest text that gives the same double"),
        ("not a number", "double precision", "NaN", "a key like any other"),
        ("boolean", "boolean", "t", "one letter on the wire"),
        ("date", "date", "2026-12-01", "as the server writes it"),
        ("time stamp with zone", "timestamp with time zone", "2026-12-01 00:42:40.99+00", "fractions as they came"),
        ("uuid", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "lower case with hyphens"),
        ("bytes", "bytea", "\\x00ff", "hexadecimal with its prefix"),
        ("document", "jsonb", '{"b":1,"a":[2]}', "the text of the server, not sorted anew"),
        ("list", "list", "{1,2}", "types without a form of their own travel as text"),
        ("interval", "interval", "1 year 2 mons 3 days 04:05:06", "as the server writes it"),
    ]
    cases = [
        named("one change", "sink id, view, time, key and ordinal, in this order", put),
        named("a snapshot's row", "is not the change that had the same key at the same time", put, snapshot=True),
        named("another sink id", "two deployments are told apart", put, sink_id="other"),
        named("another view", "and so are two views of one sink", put, view="w"),
        named("another time", "a later change of the same key is another one; the correlation key stays", [(LATER, "upsert", "1", "a")]),
        named("another value", "values that are no key do not count", [(T, "upsert", "1", "b")]),
        named("a delete", "has the key of the put at the same time and place: one of them is sent", [(T, "delete", "1", None)]),
        named("several keys of one time", "the ordinal counts within the time", [(T, "upsert", "1", "a"), (T, "upsert", "2", "b"), (T, "delete", "3", None)]),
        named("two times", "the ordinal starts again with each time", [(T, "upsert", "1", "a"), (T, "upsert", "2", "b"), (LATER, "upsert", "1", "c")]),
        named("two times in two batches", "where a batch ends changes no key", [(T, "upsert", "1", "a"), (T, "upsert", "2", "b"), (LATER, "upsert", "1", "c")], blocks=True),
        named("no key", "rows of one time differ by their ordinal alone", [(T, "1", "1", "a"), (T, "1", "1", "a")], key=(), envelope="diff"),
        named("a key in the diff envelope", "a retraction and an insertion of one key at one time differ by their ordinal", [(T, "-1", "1", "a"), (T, "1", "1", "b")], envelope="diff"),
        named("several at once", "how often a row is there does not count", [(T, "5", "1", "a")], envelope="diff"),
        named("a composite key", "values in the order of the key, not of the columns", [(T, "upsert", "1", "x", "10")], columns=COMPOSITE, key=("c", "a")),
        named("a composite key the other way round", "is another key", [(T, "upsert", "1", "x", "10")], columns=COMPOSITE, key=("a", "c")),
        named("values that run together", "1 and 10 are not 11 and 0: values are kept apart", [(T, "upsert", "1", "x", "10"), (T, "upsert", "11", "x", "0")], columns=COMPOSITE, key=("a", "c")),
        named("NULL in a key", "is null, not an empty text", [(T, "upsert", None, "a"), (T, "upsert", "", "b")], columns=[("k", "text"), ("v", "text")]),
        named("the word null", "is a text like any other", [(T, "upsert", "null", "a")], columns=[("k", "text"), ("v", "text")]),
        named("quotes and controls", "are escaped as canonical JSON has it", [(T, "upsert", 'say "hi"\\\n\t\u001f', "a")], columns=[("k", "text"), ("v", "text")]),
        named("letters beyond ASCII", "are themselves, in UTF-8", [(T, "upsert", "naïve 日本 🦀", "a")], columns=[("k", "text"), ("v", "text")], sink_id="sänk", view="ü"),
        named("composed and decomposed letters", "are two keys, as they are for the server", [(T, "upsert", "\u00e9", "a"), (T, "upsert", "e\u0301", "b")], columns=[("k", "text"), ("v", "text")]),
    ]
    cases += [
        named(f"a key of type {label}", why, [(T, "upsert", text, "a")], columns=[("k", ty), ("v", "text")])
        for label, ty, text, why in typed
    ]
    return cases


def write(name, cases):
    out = ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases)
    (Path(__file__).parent / f"{name}.json").write_text(f"[\n{out}\n]\n")


def main():
    cases = []
    for path in sorted(RECORDINGS.glob("wire/*")):
        for number, stream in enumerate(wire_streams(path), 1):
            columns, key = view_of(stream)
            names = [c["name"] for c in stream["names"]]
            label = f"{scenario(path)} {number}"
            cases.append(case(label, scenario(path), stream["sql"], columns, key, names, stream["rows"], stream["end"]))
    for path in sorted(RECORDINGS.glob("streams/*")):
        head, *rows = lines(path)
        columns = [
            {"name": c["name"], "type": c["type"], "type_mod": int(c["type_mod"]), "nullable": c["nullable"] == "t"}
            for c in head["object_columns"]
        ]
        names = [c["name"] for c in head["result_columns"]]
        progress = [i for i, row in enumerate(rows) if row[1] == "t"]
        # The last rows of the snapshot and what follows say more than its beginning.
        near = next(i for i in progress if i > 0)
        rows = rows[:1] + rows[max(1, near - 20):near + 30]
        sql = f"SUBSCRIBE {head['object']} ENVELOPE UPSERT AS OF {head['as_of']}"
        cases.append(case(scenario(path), scenario(path), sql, columns, head["key"], names, rows, False))
    write("recorded_streams", cases)
    write("keys", keys())
    print(f"{len(cases)} streams of {len({c['recording'] for c in cases})} recordings")


main()

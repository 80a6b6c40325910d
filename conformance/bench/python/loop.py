"""The loop that a user would write first: psycopg and the official client, no checkpoint."""

import os

import psycopg
import turbopuffer

rows_wanted = int(os.environ["ROWS"])
client = turbopuffer.Turbopuffer(api_key="none", base_url=os.environ["TURBOPUFFER_BASE_URL"])
namespace = client.namespace("bench")
schema = {"id": "string", "a": "int", "b": "int", "price": "float", "name": "string",
          "note": {"type": "string", "filterable": False}, "flag": "bool", "at": "string"}
batch, moved = [], 0


def flush():
    global batch, moved
    if batch:
        namespace.write(upsert_rows=batch, schema=schema)
        moved += len(batch)
        batch = []


with psycopg.connect(os.environ["MATERIALIZE_URL"], autocommit=True) as connection:
    cursor = psycopg.ClientCursor(connection)
    cursor.execute("BEGIN")
    cursor.execute("DECLARE c CURSOR FOR SUBSCRIBE bench ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)")
    while moved < rows_wanted:
        cursor.execute("FETCH 10000 c WITH (timeout = '1s')")
        names = [column.name for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(names, values))
            if row["mz_progressed"]:
                flush()
                continue
            batch.append({"id": str(row["id"]), "a": row["a"], "b": row["b"], "price": float(row["price"]),
                          "name": row["name"], "note": row["note"], "flag": row["flag"], "at": row["at"].isoformat()})
            if len(batch) == 10_000:
                flush()

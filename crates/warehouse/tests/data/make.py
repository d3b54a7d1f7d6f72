"""Makes the Parquet files of this folder, as other writers make them: pyarrow 26.0, DuckDB 2.0 and Polars 2.1."""

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq

message = pa.struct([("content", pa.string()), ("role", pa.string()), ("name", pa.string()), ("at", pa.timestamp("us"))])
chats = pa.table(
    {
        "id": pa.array(["a", "b"]),
        "messages": pa.array(
            [
                [
                    {"role": "system", "content": "be brief"},
                    {"role": "user", "content": "hello there"},
                    {"role": "assistant", "content": "a b c"},
                ],
                [{"role": "user", "content": "again"}],
            ],
            pa.list_(message),
        ),
        "output_tokens": pa.array([7, None], pa.int32()),
        "image": pa.array([b"\xff\xd8", None], pa.binary()),
    }
)
# Snappy is its default, and one row group for each row.
pq.write_table(chats, "pyarrow.parquet", row_group_size=1)
pq.write_table(chats, "pyarrow-gzip.parquet", compression="gzip", store_schema=False)
turn = pa.struct([("from", pa.string()), ("value", pa.string())])
turns = [[{"from": "human", "value": "hi"}, {"from": "gpt", "value": "x y"}], [{"from": "gpt", "value": "no"}]]
pq.write_table(pa.table({"conversations": pa.array(turns, pa.list_(turn))}), "sharegpt.parquet", data_page_version="2.0")
duckdb.sql(
    "copy (select 'row ' || i as question, i + 2 as n, [{'role': 'user', 'content': 'q' || i}] as messages from range(3) t(i)) "
    "to 'duckdb.parquet' (format parquet)"
)
# Zstandard is its default.
polars.DataFrame(
    {"prompt": ["p", "q"], "output_tokens": [1, 2], "messages": [[{"role": "user", "content": "é"}], []]}
).write_parquet("polars.parquet")

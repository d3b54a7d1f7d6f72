"""Reads the warehouse's tables with other projects' readers and compares them with what was written: lake.py WAREHOUSE EXPECTED.json

EXPECTED.json: {"tables": {name: {"rows", "version", "columns": [{"name", "type", "nullable", "nulls", "sum"}]}}}, where `type` is
bool, int64, float64 or text, and `sum` is over the values of a whole number or a double, and the number of trues of a bool.
"""
import json
import math
import pathlib
import sys

import deltalake
import duckdb

ARROW = {"bool": "bool", "int64": "int64", "float64": "double", "text": "string"}
DELTA = {"bool": "boolean", "int64": "long", "float64": "double", "text": "string"}
DUCKDB = {"bool": "BOOLEAN", "int64": "BIGINT", "float64": "DOUBLE", "text": "VARCHAR"}
PANDAS = {"bool": "bool", "int64": "int64", "float64": "float64"}

problems = []


def check(what, found, expected):
    same = math.isclose(found, expected, rel_tol=1e-9) if isinstance(expected, float) else found == expected
    if not same:
        problems.append(f"{what}: found {found!r}, expected {expected!r}")


def check_sql(how, connection, source, table, expected):
    """Counts, types and sums as DuckDB sees them, wherever the rows come from."""
    types = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    check(f"{how} {table}: columns", list(types), [column["name"] for column in expected["columns"]])
    check(f"{how} {table}: rows", connection.execute(f"SELECT count(*) FROM {source}").fetchone()[0], expected["rows"])
    for column in expected["columns"]:
        name, kind = column["name"], column["type"]
        check(f"{how} {table}.{name}: type", types.get(name), DUCKDB[kind])
        nulls, total = connection.execute(
            f'SELECT count(*) FILTER ("{name}" IS NULL), '
            + ("NULL" if kind == "text" else f'coalesce(sum("{name}"), 0)')
            + f" FROM {source}"
        ).fetchone()
        check(f"{how} {table}.{name}: nulls", nulls, column["nulls"])
        if kind != "text":
            check(f"{how} {table}.{name}: sum", total if kind == "float64" else int(total), column["sum"])


def check_pandas(frame, table, expected):
    check(f"pandas {table}: rows", len(frame), expected["rows"])
    for column in expected["columns"]:
        name, kind = column["name"], column["type"]
        series = frame[name]
        check(f"pandas {table}.{name}: nulls", int(series.isna().sum()), column["nulls"])
        if kind in PANDAS and not column["nullable"] and expected["rows"]:
            check(f"pandas {table}.{name}: type", str(series.dtype), PANDAS[kind])
        if kind == "float64":
            check(f"pandas {table}.{name}: sum", float(series.sum()), column["sum"])


def main(warehouse, expected):
    names = sorted(path.name for path in warehouse.iterdir())
    check("tables", names, sorted(expected["tables"]))
    scanned = "not tried"
    for table, wanted in expected["tables"].items():
        delta = deltalake.DeltaTable(str(warehouse / table))
        check(f"deltalake {table}: version", delta.version(), wanted["version"])
        schema = json.loads(delta.schema().to_json())
        fields = [(field["name"], field["type"], field["nullable"]) for field in schema["fields"]]
        check(f"deltalake {table}: schema", fields, [(c["name"], DELTA[c["type"]], c["nullable"]) for c in wanted["columns"]])
        check(f"deltalake {table}: comments", all(field["metadata"].get("comment") for field in schema["fields"]), True)
        rows = delta.to_pyarrow_table()
        check(f"arrow {table}: types", [str(field.type) for field in rows.schema], [ARROW[c["type"]] for c in wanted["columns"]])

        connection = duckdb.connect()
        connection.register("through_arrow", rows)
        check_sql("deltalake, DuckDB", connection, "through_arrow", table, wanted)
        check_pandas(delta.to_pandas(), table, wanted)
        files = delta.file_uris()
        if files:
            listed = ", ".join("'" + file.removeprefix("file://") + "'" for file in files)
            check_sql("DuckDB on Parquet", connection, f"read_parquet([{listed}])", table, wanted)
        try:
            connection.execute("INSTALL delta; LOAD delta;")
            check_sql("DuckDB delta_scan", connection, f"delta_scan('{warehouse / table}')", table, wanted)
            scanned = "yes"
        except duckdb.Error as error:
            scanned = f"no ({str(error).splitlines()[0][:120]})"

    # The views' join, as another engine makes it: only rows of runs that are visible.
    connection = duckdb.connect()
    for table in ("outcome_fact", "benchmark_run_fact"):
        connection.register(table, deltalake.DeltaTable(str(warehouse / table)).to_pyarrow_table())
    joined = connection.execute("SELECT count(*) FROM outcome_fact JOIN benchmark_run_fact USING (run_id, benchmark_case_id)")
    check("visible outcomes", joined.fetchone()[0], expected["tables"]["outcome_fact"]["rows"])

    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"deltalake {deltalake.__version__}, duckdb {duckdb.__version__}, delta_scan: {scanned}, problems: {len(problems)}")
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: lake.py WAREHOUSE EXPECTED.json")
    sys.exit(main(pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text())))

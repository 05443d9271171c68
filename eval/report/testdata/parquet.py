"""Reads results.parquet, which `go test ./eval/report -update` wrote, with pyarrow (pip install pyarrow) and compares it."""
import pathlib
import pyarrow.parquet as pq

t = pq.read_table(pathlib.Path(__file__).parent / "results.parquet")
d = t.to_pydict()
assert t.num_rows == 4 and t.num_columns == 21, t.schema
assert d["mode"] == ["dense", "dense", "hybrid", "hybrid"] and d["encoder"] == ["Straße <1>"] * 4
assert d["mean"] == [.25, .75, 0, 1] and d["unscored"] == [0, 1, 4, 0] and d["k"] == [10] * 4 and d["weight"] == [.5] * 4
print(t.schema)

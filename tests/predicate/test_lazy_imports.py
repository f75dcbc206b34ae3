from __future__ import annotations

import subprocess
import sys

USE = """
import sys
import numpy as np
import pyarrow as pa
from delta_sidecar import _arrow
from delta_sidecar.predicate import ColumnBounds, bind, matches, may_match, parse

schema = pa.schema([
    ("s", pa.string()), ("n", pa.int64()), ("f", pa.float32()), ("d", pa.date32()), ("ts", pa.timestamp("us", "UTC")),
    ("dec", pa.decimal128(30, 2)), ("b", pa.bool_()), ("bin", pa.binary()), ("st", pa.struct([("x", pa.int64())])),
])
values = {"s": "a", "n": "1", "f": "1.5", "d": "2026-02-08", "ts": "2026-02-08T00:00:00Z", "dec": "1.50", "b": "true"}
values["bin"] = "a"
flat = {name: _arrow.strings([text, None]).cast(schema.field(name).type) for name, text in values.items()}
flat["st"] = pa.StructArray.from_arrays([_arrow.from_numpy(np.array([1, 2]))], ["x"])
table = pa.Table.from_arrays(list(flat.values()), list(flat))

class Known:
    num_rows = 2
    def __init__(self, exact):
        self.exact = exact
    def column(self, path):
        if path == ("st", "x"):
            return None
        ones = _arrow.from_numpy(np.array([1, 1]))
        flags = _arrow.from_numpy(np.array([True, False]))
        one = flat[path[0]]
        return ColumnBounds(one, one, ones, ones, exact=self.exact, zoneless=flags if self.exact else None)

def use(source):
    predicate = bind(parse(source), schema)
    for exact in (True, False):
        assert len(may_match(predicate, Known(exact))) == 2
    assert len(matches(predicate, table)) == 2
    assert str(predicate)

for name, text in values.items():
    literal = bytes(text, "ascii") if name == "bin" else text
    for op in ("=", "!=", "<", ">="):
        use([(name, op, literal)])
        use({"$not": {name: {op: literal}}})
    use([(name, "in", [literal, None])])
    use([(name, "in", [literal] if name in ("b", "bin") else [literal, "3" if name in ("n", "f", "dec") else literal])])
    use([(name, "=", None)])
use([("s", "like", "a%"), ("s", "not like", "_"), ("n", "<", 2.5), ("n", "in", [1, 2, 3]), ("s", "not in", ["a", "b"])])
use([("st.x", "=", 1)])
use([("bin", "in", [b"a", b"b"])])
use([("dec", "in", ["1.50", "2.5"])])
use('{"n": 1}')
use("n = 1 AND s LIKE 'a%' AND ts > DATE '2026-02-08'")
"""


def test_neither_pandas_nor_a_library_that_parses_sql_is_imported() -> None:
    code = f"{USE}print([name for name in ('pandas', 'sqlglot') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"

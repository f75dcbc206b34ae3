"""Random Parquet files with a struct `add`, as checkpoints have one, in every layout that a writer may choose."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_VECTOR = pa.struct([("storageType", pa.string()), ("offset", pa.int32()), ("cardinality", pa.int64())])
_LEAVES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "path": (pa.string(), lambda dice: f"part-{dice.randrange(10**6)}-ä.parquet"),
    "stats": (pa.string(), lambda dice: "stats " + "y" * dice.randrange(90)),
    "size": (pa.int64(), lambda dice: dice.randrange(10**9)),
    "modificationTime": (pa.int64(), lambda dice: 1_770_000_000_000 + dice.randrange(4)),
    "dataChange": (pa.bool_(), lambda dice: dice.random() < 0.5),
    "count": (pa.int32(), lambda dice: dice.randrange(-5, 5)),
    "ratio": (pa.float64(), lambda dice: dice.random()),
    "weight": (pa.float32(), lambda dice: float(dice.randrange(8))),
    "note": (pa.binary(), lambda dice: dice.randbytes(dice.randrange(12))),
    "day": (pa.date32(), lambda dice: dice.randrange(20_000)),
    "at": (pa.timestamp("us", "UTC"), lambda dice: dice.randrange(10**15)),
    "partitionValues": (
        pa.map_(pa.string(), pa.string()),
        lambda dice: [(f"p{n}", dice.choice([None, "", "v"])) for n in range(dice.randrange(3))],
    ),
    "deletionVector": (
        _VECTOR,
        lambda dice: {"storageType": dice.choice("uip"), "offset": dice.choice([None, 1]), "cardinality": 3},
    ),
}
COLUMNS = tuple(f"add.{name}" for name in _LEAVES)


@dataclass(frozen=True)
class CheckpointLike:
    """A file to be.

    Attributes:
        table: What is in it.
        options: How it is written.
    """

    table: pa.Table
    options: dict[str, Any]

    def write(self, path: Path) -> pq.FileMetaData:
        """Writes it and gives its footer."""
        pq.write_table(self.table, path, **self.options)
        return pq.read_metadata(path)


@st.composite
def checkpoint_likes(draw: st.DrawFn, *, most_rows: int = 300, int96: bool = False) -> CheckpointLike:
    """Gives random files; some with Parquet's oldest timestamps, if they may be there."""
    rows = draw(st.integers(1, most_rows))
    dice = random.Random(draw(st.integers(0, 2**20)))  # noqa: S311 - no secret
    table = _table(rows, dice, draw(st.sampled_from([0.0, 0.1, 0.9])), draw(st.sampled_from([0.0, 0.3, 1.0])))
    dictionary = draw(st.sampled_from([True, False, ["add.path", "add.count", "add.stats"]]))
    options = draw(
        st.fixed_dictionaries(
            {
                "use_dictionary": st.just(dictionary),
                "dictionary_pagesize_limit": st.sampled_from([None, 64, 500]),
                "data_page_version": st.sampled_from(["1.0", "2.0"]),
                "compression": st.sampled_from(["NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI"]),
                # One byte makes Arrow's writer end a column with an empty page, which its reader stumbles over.
                "data_page_size": st.sampled_from([None, 20, 50, 400]),
                "write_batch_size": st.sampled_from([1, 3, 16, 1024]),
                "max_rows_per_page": st.sampled_from([1, 7, 20_000]),
                "row_group_size": st.sampled_from([1, 17, 100, 1000]),
                "write_page_index": st.booleans(),
                "write_page_checksum": st.booleans(),
                "write_statistics": st.booleans(),
                "store_schema": st.booleans(),
                "use_deprecated_int96_timestamps": st.booleans() if int96 else st.just(value=False),
                "version": st.sampled_from(["1.0", "2.4", "2.6"]),
            }
        )
    )
    if dictionary is False and draw(st.booleans()):
        texts = st.sampled_from(["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
        numbers = st.sampled_from(["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
        options["column_encoding"] = {"add.path": draw(texts), "add.stats": draw(texts), "add.size": draw(numbers)}
    return CheckpointLike(table, {name: value for name, value in options.items() if value is not None})


def _table(rows: int, dice: random.Random, null_structs: float, null_leaves: float) -> pa.Table:
    """Makes rows; each field is required or not by a throw of the dice, and the struct where no row lacks it."""
    children, fields = [], []
    absent = [dice.random() < null_structs for _ in range(rows)]
    for name, (kind, throw) in _LEAVES.items():
        required = dice.random() < 0.3
        share = 0.0 if required else null_leaves
        # A long header: some bounds are long texts.
        long = "z" * 2_000 if name == "stats" and dice.random() < 0.2 else ""
        values = [None if dice.random() < share else throw(dice) for _ in range(rows)]
        values = [value + long if long and value is not None else value for value in values]
        children.append(pa.array(values, kind))
        fields.append(pa.field(name, kind, nullable=not required))
    required = not any(absent) and dice.random() < 0.5
    mask = None if required else pa.array(absent)
    struct = pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    others = pa.array([dice.choice([None, "a", "b" * 20]) for _ in range(rows)], pa.string())
    schema = pa.schema([pa.field("txn", pa.string()), pa.field("add", struct.type, nullable=not required)])
    return pa.table([others, struct], schema=schema)

"""Parts of a metadata sidecar: what one task of Spark writes, straight into the table.

A task gets the files of its range in order, makes rows and row groups of them, and puts one data file under a name
that no other attempt has. The driver gets a record of a few bytes for each row group. What an attempt leaves behind
that did not win is named by no manifest: vacuum removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from delta_sidecar._arrow import booleans, numbers_of
from delta_sidecar.build.reading import MOST_ROWS, gathered
from delta_sidecar.build.row_groups import cut
from delta_sidecar.build.writing import Pieces, joined_pieces, unwritable, write_footer, write_pieces
from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.log.names import SIDECAR_FOLDER
from delta_sidecar.sidecar.canonical import seal
from delta_sidecar.sidecar.names import part_name
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.sidecar.segments import encode_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from delta_sidecar.build.rows import RowMaker
    from delta_sidecar.store import Store

ACTIONS = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", pa.map_(pa.string(), pa.string())),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("stats", pa.string()),
        pa.field("tags", pa.map_(pa.string(), pa.string())),
        pa.field("deletionVector", DELETION_VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
)
"""What rows are made of."""

RECORD = (
    "part int, name string, size bigint, num_rows bigint, kept_texts bigint, index_bytes bigint, stats_bytes bigint, "
    "bytes bigint, largest bigint, rows bigint, most_rows bigint, groups binary"
)
"""What a task gives back, in the words of Spark."""

_MOST_ATTEMPTS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PartWriter:
    """Writes parts, on executors.

    Attributes:
        store: The table's store; it travels with its credentials.
        maker: Makes the rows.
        version: The version of the table.
        build: The name of the build.
        rows_per_group: Rows in a row group.
    """

    store: Store
    maker: RowMaker
    version: int
    build: str
    rows_per_group: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the part of a task; a task without files writes none.

        Yields:
            One record, if there is a part.
        """
        context: Any = TaskContext.get()
        record = self.write(batches, context.partitionId(), context.taskAttemptId())
        if record is not None:
            yield pa.RecordBatch.from_pylist([record], _RECORD_SCHEMA)

    def write(self, batches: Iterable[pa.RecordBatch], part: int, attempt: int) -> dict[str, Any] | None:
        """Writes a part.

        Args:
            batches: Its files in order, with the fields of their `add` actions.
            part: Its number.
            attempt: The number of this attempt at it, which no other attempt has.

        Returns:
            The record of it; None where there are no files.
        """
        with _temporary_folder() as folder:
            pieces = self._pieces(batches, folder)
            if not pieces.groups:
                return None
            mark = seal({"format_version": FORMAT_VERSION, "version": self.version}).decode()
            size = write_footer(pieces, self.maker.layout, mark)
            name = part_name(self.version, self.build, part, attempt % _MOST_ATTEMPTS)
            self.store.put_file(SIDECAR_FOLDER + name, str(pieces.path))
        return {
            "part": part,
            "name": name,
            "size": size,
            "num_rows": pieces.num_rows,
            "kept_texts": pieces.kept_texts,
            "index_bytes": pieces.index_bytes,
            "stats_bytes": pieces.stats_bytes,
            **asdict(pieces.totals),
            "groups": encode_segment(pieces.groups),
        }

    def _pieces(self, batches: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        """The pieces of all files, those of incomplete ones in front."""
        aside = _Aside(folder / "incomplete")
        complete = self._written(aside.passed(self._rows(batches)), _inside(folder, "complete"))
        if not aside.rows:
            return complete
        incomplete = self._written(aside.taken(), _inside(folder, "others"))
        return joined_pieces(incomplete, complete, folder) if complete.groups else incomplete

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        actions = (actions_of(batch) for batch in batches)
        for gathered_actions in gathered(actions, min(MOST_ROWS, self.maker.most_rows)):
            yield self.maker.rows(gathered_actions)

    def _written(self, rows: Iterable[pa.RecordBatch], folder: Path) -> Pieces:
        return write_pieces(cut(rows, self.rows_per_group), self.maker, self.maker.layout, folder, threads=1)


def actions_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch from Spark in the types that rows are made of."""
    columns = [_cast(batch.column(field.name), field.type) for field in ACTIONS]
    return pa.RecordBatch.from_arrays(columns, schema=ACTIONS)


class _Aside:
    """Puts incomplete rows aside, in a file, while the others pass.

    Attributes:
        rows: How many it has put aside.
    """

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._path = path

    def passed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = None
        try:
            for batch in batches:
                complete = numbers_of(batch.column("#complete")).astype(np.bool_)
                if complete.all():
                    yield batch
                    continue
                others = batch.filter(booleans(~complete))
                writer = writer or pa.ipc.new_file(str(self._path), batch.schema, options=_SPILLED)
                writer.write_batch(others)
                self.rows += others.num_rows
                if complete.any():
                    yield batch.filter(booleans(complete))
        except OSError as error:
            raise unwritable(self._path.parent, error) from error
        finally:
            if writer is not None:
                writer.close()

    def taken(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


_SPILLED = pa.ipc.IpcWriteOptions(compression="zstd")

_RECORD_SCHEMA = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("name", pa.string()),
        *(pa.field(name, pa.int64()) for name in ("size", "num_rows", "kept_texts", "index_bytes", "stats_bytes")),
        *(pa.field(name, pa.int64()) for name in ("bytes", "largest", "rows", "most_rows")),
        pa.field("groups", pa.binary()),
    ]
)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        # Delta's descriptor has fields that are not kept.
        fields = {field.name: child for field, child in zip(column.type, column.flatten(), strict=True)}
        children = [_cast(fields[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    return pc.cast(column, kind)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder of the executor, inside of what Spark removes at its end."""
    given = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if each and Path(each).is_dir()]
    where = given[0] if given else None
    try:
        folder = Path(tempfile.mkdtemp(prefix="delta-sidecar-part-", dir=where))
    except OSError as error:
        msg = f"no temporary folder can be made in {where or tempfile.gettempdir()}: {error.strerror}"
        raise TemporaryFileError(msg) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _inside(folder: Path, name: str) -> Path:
    inside = folder / name
    inside.mkdir()
    return inside

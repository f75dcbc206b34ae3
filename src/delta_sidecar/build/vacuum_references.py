"""Which files of `_delta_log/_sidecars/` the checkpoints of a log refer to: their V2-checkpoint sidecars."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from delta_sidecar._arrow import valid_mask
from delta_sidecar.errors import ObjectNotFoundError, UnreadableFileError
from delta_sidecar.plan import FILE_LABEL, ScanJson, ScanParquet
from delta_sidecar.replay.checkpoint import is_torn
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.files import struct_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from delta_sidecar.execute import LocalExecutor
    from delta_sidecar.plan import FileRef

_TOP = pa.schema(
    [
        ("sidecar", pa.struct([("path", pa.string())])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string())])),
    ]
)


@dataclass(frozen=True, slots=True)
class References:
    """What checkpoints refer to.

    Attributes:
        names: Names of files; only those that were asked for.
        unreadable: The first checkpoint that cannot be read, and why: it may refer to anything. None where all can.
    """

    names: frozenset[str] = frozenset()
    unreadable: tuple[str, str] | None = None


def read_references(
    executor: LocalExecutor, checkpoints: Sequence[FileRef], is_asked_for: Callable[[str], bool]
) -> References:
    """Reads the `sidecar` actions of checkpoints: footers, and of their rows only those that have one.

    Args:
        executor: Runs the reading.
        checkpoints: The files of all checkpoints, each with its place in this sequence as its label.
        is_asked_for: Tells whether it matters that a file is referred to.

    Raises:
        StorageError: The store is out of reach.
    """
    found: set[str] = set()
    left = list(checkpoints)
    while True:
        try:
            for path in _paths(executor, left):
                # The protocol keeps these files in one folder, so that only the name counts.
                names = {text.rpartition("/")[2] for text in (path, unquote(path))}
                found |= {name for name in names if is_asked_for(name)}
        except UnreadableFileError as error:
            if isinstance(error.__cause__, ObjectNotFoundError):
                # The log is being cleaned up: what is gone refers to nothing.
                left = [ref for ref in left if ref.path != error.path]
                continue
            if not is_torn(error):
                raise_unreachable("the checkpoint", error)
                raise
            return References(frozenset(found), (error.path, str(error.__cause__ or error)))
        return References(frozenset(found))


def _paths(executor: LocalExecutor, checkpoints: Sequence[FileRef]) -> Iterator[str]:
    """The paths in all `sidecar` actions."""
    tables = tuple(ref for ref in checkpoints if not ref.path.endswith(".json"))
    texts = tuple(ref for ref in checkpoints if ref.path.endswith(".json"))
    if tables:
        plan = ScanParquet(tables, ("sidecar.path",), non_null=("sidecar.path",))
        with closing(executor.execute(plan)) as batches:
            for batch in batches:
                yield from _sidecar_paths(batch, executor)
    if texts:
        yield from _paths_in_texts(executor, texts)


def _paths_in_texts(executor: LocalExecutor, texts: tuple[FileRef, ...]) -> Iterator[str]:
    whole: set[int] = set()
    with closing(executor.execute(ScanJson(texts, _TOP))) as batches:
        for batch in batches:
            told = [valid_mask(found) for found in struct_fields(batch.column("metaData")).values()]
            if any(mask.any() for mask in told):
                whole.add(batch.column(FILE_LABEL)[0].as_py())
            yield from _sidecar_paths(batch, executor)
    for ref in texts:
        if ref.label not in whole:
            msg = f"{ref.path}: it has no metaData"
            raise UnreadableFileError(msg, ref.path, ref.label)


def _sidecar_paths(batch: pa.RecordBatch, executor: LocalExecutor) -> Iterator[str]:
    if "sidecar" not in batch.schema.names:
        return
    paths = struct_fields(batch.column("sidecar")).get("path")
    if paths is None:
        return
    if not pa.types.is_string(paths.type):
        place = "" if executor.place is None else executor.place.path
        msg = f"{place}: the paths of its sidecar actions are no texts"
        raise UnreadableFileError(msg, place)
    yield from paths.drop_null().to_pylist()

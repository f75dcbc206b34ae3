"""A base that is no checkpoint: a text file with its version, and beside it row groups of files, one file each.

A row group is emitted whole or not at all. Where one cannot be read, the base says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.replay.handmade import METADATA, PROTOCOL, read

from delta_sidecar.errors import UnreadableFileError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.identity import file_keys
from delta_sidecar.plan import Consume, FileRef, Filter, PartialResult, ReadFiles, ScanParquet
from delta_sidecar.replay.bases.base import Base, Torn
from delta_sidecar.replay.request import Emitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from delta_sidecar.plan import Flow
    from delta_sidecar.replay.files import FileColumns
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.seen.seen import SeenSet


@dataclass(frozen=True, slots=True)
class PlainBase(Base):
    """A base that knows how many row groups it has."""

    groups: int
    is_trusted: bool = False

    @property
    def identity(self) -> dict[str, str]:
        return {self.name: "plain"}

    def trust(self, *, with_table: bool, ahead: tuple[FileRef, ...] = ()) -> Flow[PlainBase]:
        del ahead
        if self.is_trusted and (self.metadata is not None or not with_table):
            return self
        texts = [batch.column("data")[0].as_py() for batch in (yield Consume(ReadFiles((f"{self.name}.txt",))))]
        if texts != [b"%d" % self.version]:
            raise Torn(ValueError(f"it says {texts}"))
        trusted = replace(self, is_trusted=True)
        if not with_table:
            return trusted
        protocol = Protocol.from_action(PROTOCOL["protocol"], "plain")
        metadata = Metadata.from_action(METADATA["metaData"], "plain")
        return replace(trusted, protocol=protocol, metadata=metadata)

    def emit(self, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        assert self.is_trusted
        groups = self._groups() if request.start is None else self._groups(request.start.path)
        if not groups:
            return
        try:
            yield PartialResult(
                Filter(ScanParquet(groups, ("path", "size")), PlainRows(seen, request.columns)), parallel=True
            )
        except UnreadableFileError as error:
            raise Torn(error, Emitted(self.name, self.version, "plain", error.label)) from error

    def emitted_keys(self, emitted: Emitted, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        del request
        assert (emitted.base, emitted.version) == (self.name, self.version)
        groups = self._groups()[: emitted.index]
        if groups:
            for batch in (yield Consume(ScanParquet(groups, ("path",)))):
                seen.insert(file_keys({"path": batch.column("path")}))

    def _groups(self, first: str = "") -> tuple[FileRef, ...]:
        groups = tuple(FileRef(f"{self.name}.{group}", label=group) for group in range(self.groups))
        return tuple(group for group in groups if group.path >= first)


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Keeps the files that a frozen seen-set does not hide."""

    seen: SeenSet
    columns: FileColumns

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        left = batch.filter(pa.array(~self.seen.contains(file_keys({"path": batch.column("path")}))))
        return self.columns.batch({name: left.column(name) for name in ("path", "size")}, left.num_rows)


def row_groups(files: Mapping[str, int], rows: int = 2) -> list[dict[str, int]]:
    """Cuts the files of a state, path and size, into row groups."""
    ordered = sorted(files.items())
    return [dict(ordered[start : start + rows]) for start in range(0, len(ordered), rows)]


def plain_answer(
    plan: ReadFiles | ScanParquet, version: int | None, groups: Sequence[Mapping[str, int] | Exception]
) -> Iterator[pa.RecordBatch]:
    """Gives the answer to a plan of a `PlainBase`; without a version its text is absent."""
    if isinstance(plan, ReadFiles):
        yield from [] if version is None else read({plan.paths[0]: b"%d" % version})
        return
    for ref in plan.files:
        group = groups[ref.label]
        if isinstance(group, Exception):
            raise group
        columns = {"path": list(group), "size": list(group.values())}
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in plan.columns})

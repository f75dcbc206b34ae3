"""A table at its version, whose files can be streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    import pyarrow as pa

    from delta_sidecar.log.actions import Metadata, Protocol
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.files import DeltaFile
    from delta_sidecar.table.handle import TableHandle


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table at one version.

    Attributes:
        handle: Scans it.
        state: What is known of it.
    """

    handle: TableHandle = field(repr=False)
    state: Snapshot

    @property
    def version(self) -> int:
        """The version."""
        return self.state.version

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema, under the names that users see."""
        return self.state.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.state.partition_columns

    @property
    def protocol(self) -> Protocol:
        """The protocol in force."""
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata in force."""
        return self.state.metadata

    def stream_active_files(
        self,
        predicate: str | Sequence[Any] | Mapping[str, Any] | Predicate | None = None,
        limit: int | None = None,
    ) -> Generator[DeltaFile, None, None]:
        """Streams the live files of this version, as they are found.

        Args:
            predicate: Only files that may hold a matching row; None for all.
            limit: At most so many, of the newest.
        """
        return self.handle.scanner(predicate, limit, snapshot=self.state).scan_files()

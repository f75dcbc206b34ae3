"""Bases: what a replay can end on.

A base holds the state of a table at one version. It must be trusted before its first row is used, which takes reading;
only then does it give its live files. Both are flows. Nothing here knows what a base is made of: a new kind is a new
class, and a line in `choice.bases_of`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from delta_sidecar.errors import (
    AuthenticationError,
    ObjectNotFoundError,
    ObjectTruncatedError,
    StorageError,
    UnreadableFileError,
)
from delta_sidecar.plan import NOTHING_AHEAD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from delta_sidecar.log.actions import Metadata, Protocol
    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.plan import Ahead, FileRef, Flow, Piece
    from delta_sidecar.replay.request import Emitted, ScanRequest
    from delta_sidecar.replay.seen.seen import SeenSet

CHECKPOINT_TIER = 3
"""The tier of checkpoints, and of the start of the log."""


class Torn(Exception):  # noqa: N818 - it never reaches a user
    """A base proved unusable: the next one is to be tried. `emitted` is what of it was emitted before."""

    def __init__(self, reason: Exception, emitted: Emitted | None = None) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.emitted = emitted


@dataclass(frozen=True, slots=True)
class Base(ABC):
    """The state of a table at one version. A value: it pickles, and what is learned of it makes another one."""

    version: int  # the version whose state it holds
    name: str  # a file name that tells it from the other bases of its log
    # The protocol in it; None where it was not read yet.
    protocol: Protocol | None = field(default=None, repr=False, kw_only=True)
    # The metadata in it; None where it was not read yet.
    metadata: Metadata | None = field(default=None, repr=False, kw_only=True)
    # The table's columns by these two, where that has been read.
    columns: TableSchema | None = field(default=None, repr=False, kw_only=True)
    nbytes: int = field(default=0, repr=False, kw_only=True)  # its size by the listing

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, str]:
        """An e_tag, or else the size, by file name: it tells the contents from others under the same names."""

    @property
    def has_table_in_front(self) -> bool:
        """Whether trusting it, which is cheap, gives protocol and metadata by the way."""
        return False

    @property
    def tier(self) -> int:
        """1 and 2 for metadata sidecars, 3 for checkpoints."""
        return CHECKPOINT_TIER

    @property
    def others(self) -> frozenset[str]:
        """Names of other bases that are made of the same files: where it is torn, they are."""
        return frozenset()

    @property
    def entries_nbytes(self) -> int | None:
        """The size of the files that hold its entries; None where that is not known yet."""
        return self.nbytes

    @property
    def num_files(self) -> int | None:
        """Its number of files, where that is known without reading more of it."""
        return None

    def ahead(self, request: ScanRequest | None) -> Ahead:
        """The first reads of `trust`, and of `emit` for a request, where they are known already and small."""
        del request
        return NOTHING_AHEAD

    @abstractmethod
    def trust(self, *, with_table: bool, ahead: tuple[FileRef, ...] = ()) -> Flow[Base]:
        """Finds out whether every file of it is there and whole, as far as is known before its first row.

        Args:
            with_table: Whether protocol and metadata are needed too. What only `emit` needs may then be left to a later
                call.
            ahead: Files that are read next, to be asked for at the same time.

        Returns:
            The base, with what it takes to emit its files.

        Raises:
            Torn: It is not.
        """

    @abstractmethod
    def emit(self, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Emits the live files that may match. Only a trusted base can.

        Args:
            request: Which files.
            seen: Keys that newer commits have; it does not change any more.

        Raises:
            Torn: A part of it cannot be read; `emitted` is what came before it.
        """

    def emitted_keys(self, emitted: Emitted, request: ScanRequest, seen: SeenSet) -> Flow[None]:
        """Reads the keys of what was emitted again, into a seen-set."""
        del emitted, request, seen
        msg = f"{self.name} is emitted as a whole"
        raise RuntimeError(msg)

    def summary(self, request: ScanRequest) -> Flow[BaseSummary]:
        """Says what it is made of, and how much of it a scan reads; no row is read. Only a trusted base can."""
        del request
        yield from ()
        return BaseSummary(self.name, self.version, self.tier, bytes=self.nbytes)


class BaseSummary(Struct, frozen=True):
    """The files and row groups of a base."""

    name: str = ""  # its file name; empty for the start of the log
    version: int = -1  # its version; -1 for the start of the log
    tier: int = 3  # 1 and 2 for metadata sidecars, 3 for checkpoints
    files: int = 0  # files that it is made of
    bytes: int = 0  # their size by the listing
    rows: int = 0  # rows in them
    row_groups: int = 0  # row groups in them
    row_groups_without_files: int = 0  # those that hold no file entry and are not read
    row_groups_pruned: int = 0  # those that a manifest says cannot hold a file that matches; they are not read either
    # Pieces of indexes that are read, in the order of the file; empty where a base has none.
    index: tuple[Piece, ...] = ()
    # Pieces of statistics that are read, in the order of the file.
    statistics: tuple[Piece, ...] = ()
    # Lists of row groups outside of the manifest that are read; the pieces of those are not known before.
    segments: int = 0
    segment_bytes: int = 0  # their size
    # What its files are in order of time by, in words; empty where they are in no order of time.
    newest_by: tuple[str, ...] = ()

    @property
    def row_groups_left(self) -> int:
        """Those that are read, at most."""
        return self.row_groups - self.row_groups_without_files - self.row_groups_pruned


START_OF_LOG = BaseSummary()
"""The base before version 0: empty."""


def raise_unreachable(subject: str, error: Exception) -> None:
    """Says that a file is out of reach, where that is the failure: not that it is absent or cut short.

    Raises:
        StorageError: It is; the message names the subject that cannot be read without it.
    """
    cause = error.__cause__
    if not isinstance(error, UnreadableFileError) or not isinstance(cause, StorageError):
        return
    if not isinstance(cause, ObjectNotFoundError | ObjectTruncatedError):
        kind = AuthenticationError if isinstance(cause, AuthenticationError) else StorageError
        msg = f"{subject} cannot be read: {error.path}: {cause}"
        raise kind(msg) from error

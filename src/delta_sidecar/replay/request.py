"""The request of one scan: a single value, bound to the table once."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from delta_sidecar.events import Events
from delta_sidecar.log.names import LogFileKind, parse_log_name
from delta_sidecar.replay.files import FILE_SCHEMA, FileColumns, bind_predicate
from delta_sidecar.replay.seen.seen import MEMORY_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.log.schema import TableSchema
    from delta_sidecar.plan import Place
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.files import Pruning
    from delta_sidecar.replay.seen.seen import SeenSet


class Emitted(Struct, frozen=True):
    """The part of a metadata sidecar that was emitted before it failed."""

    base: str
    version: int
    identity: str  # an e_tag, or else a size: it tells its contents from others under the same name
    index: int  # the row group where it failed, or the first one of the segment; what came before can be read again
    of_segment: bool = False  # whether it was the segment
    reach: int = -1  # the version that the tail was above then: its commits have the last word on what was emitted


class BaseMark(NamedTuple):
    """The base that a replay ends on or tries next; by default the start of the log."""

    name: str = ""
    version: int = -1
    reach: int = -1  # the version that the tail is above: the base's, or less
    identity: tuple[tuple[str, str], ...] = ()  # what tells its contents from others, by file name


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """Counts of the file entries that a replay met.

    Attributes:
        commit_adds: Entries in commits.
        commit_hidden: Of those, dead: a newer commit has the file too.
        commit_pruned: Of those, live ones that cannot match.
        base_adds: Entries in the base, as far as they were looked at; not of one that proved unusable before its
            first file.
        base_pruned_early: Of those, not decoded further: their partition values or typed statistics cannot match.
        base_hidden: Of those, dead.
        base_pruned: Of those, live ones that cannot match by the text of their statistics.
    """

    commit_adds: int = 0
    commit_hidden: int = 0
    commit_pruned: int = 0
    base_adds: int = 0
    base_pruned_early: int = 0
    base_hidden: int = 0
    base_pruned: int = 0


class ReplayProgress(Struct, eq=False):
    """The progress of one replay, counted from any thread. It pickles empty: it belongs to a process."""

    base: BaseMark | None = None  # the base that the replay ends on or tries next; None before it began
    emitted: tuple[Emitted, ...] = ()  # what was emitted of bases that failed
    seen: SeenSet | None = None  # the keys of the tail; None before the replay began
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _bases: list[ReplayProgress] = field(default_factory=list)

    def add(self, **counts: int) -> None:
        """Counts, by the names of `EntryCounts`."""
        with self._lock:
            self._counts.update(counts)

    def of_base(self) -> ReplayProgress:
        """Counts the entries of another base; they are part of the counts, unless it is dropped."""
        base = ReplayProgress()
        with self._lock:
            self._bases.append(base)
        return base

    def drop_base(self) -> None:
        """Leaves the counts of the last base out: nothing of it was used. Threads may still be counting."""
        with self._lock:
            self._bases.pop()

    def counts(self) -> EntryCounts:
        """The counts as they are now."""
        return EntryCounts(**self._total())

    def _total(self) -> Counter[str]:
        with self._lock:
            return sum((base._total() for base in self._bases), Counter(self._counts))  # noqa: SLF001 - of its own kind

    def __reduce__(self) -> tuple[type[ReplayProgress], tuple[()]]:
        return ReplayProgress, ()

    def __deepcopy__(self, _: object) -> ReplayProgress:
        return self


class ScanRequest(Struct, frozen=True):
    """The request of a scan."""

    table: str  # the table's address, for messages
    columns: FileColumns  # makes the batches that are emitted
    pruning: Pruning | None = None  # tests which files may match; None: all may
    skipping: bool = True  # whether row groups that cannot hold a file that matches are left out
    limit: int | None = None  # most files that are wanted, with those before `start`; None for all
    forward: bool = False  # whether the base comes first, then the commits after it
    recent: bool = False  # whether a base that is in order of time is emitted from its newest end
    start: Place | None = None  # Where to begin; None for the start. What comes before was emitted by an earlier scan.
    emitted: tuple[Emitted, ...] = ()  # what earlier scans emitted of bases that failed then
    enough: int | None = None  # so many files of a base are likely to be enough; None for all
    strict: bool = False  # whether actions of commits other than add, remove and commitInfo fail the scan
    fallback: bool = True  # whether such a scan then goes on as if it were not strict
    seen_memory: int = MEMORY_LIMIT  # most bytes of keys in memory
    sidecar_groups_at_once: int = 5  # how many row groups of a metadata sidecar are fetched together
    files_at_once: int | None = None  # how many commits are fetched at once; None for the executor's own number
    # How many row groups of a checkpoint are read at once; None for the executor's own number.
    row_groups_at_once: int | None = None
    # Where the replay is; it counts the file entries that are met.
    progress: ReplayProgress = field(default_factory=ReplayProgress)
    events: Events = field(default_factory=Events)  # listeners

    @classmethod
    def bind(
        cls,
        table: str,
        schema: TableSchema,
        predicate: Predicate | None = None,
        columns: Iterable[str] = FILE_SCHEMA.names,
    ) -> ScanRequest:
        """Binds a predicate and the columns of files that are wanted to a table's schema.

        Raises:
            PredicateError: It names an unknown column, or compares one with a value of another type.
        """
        made = FileColumns.of(schema, columns)
        return cls(table, made, bind_predicate(schema, predicate))

    @property
    def start_version(self) -> int | None:
        """The version of the commit to begin with; None where that is not in a commit."""
        name = None if self.start is None else parse_log_name(self.start.path)
        return name.version if name is not None and name.kind is LogFileKind.COMMIT else None

    @property
    def starts_in_base(self) -> bool:
        """Whether an earlier scan emitted files of the base."""
        return self.start is not None and self.start_version is None

    def of_base(self) -> ScanRequest:
        """The part of it that a base is asked for, once the commits after it are read."""
        # Who asks for the newest first often stops soon.
        enough = 1 if self.recent else None
        if self.limit is not None:
            found = self.progress.counts()
            enough = max(1, self.limit - (found.commit_adds - found.commit_hidden - found.commit_pruned))
        start = self.start if self.starts_in_base else None
        return replace(self, start=start, enough=enough, progress=self.progress.of_base())


class Question(Struct):
    """The predicate and columns of a scan, to be bound to a table's columns once they are known."""

    predicate: Predicate | None
    columns: tuple[str, ...] = tuple(FILE_SCHEMA.names)
    _bound: tuple[TableSchema, ScanRequest] | None = None

    def bound(self, table: str, schema: TableSchema) -> ScanRequest:
        """Binds it, as `ScanRequest.bind` does; to the same columns once."""
        if self._bound is None or self._bound[0] is not schema:
            self._bound = schema, ScanRequest.bind(table, schema, self.predicate, self.columns)
        return self._bound[1]

"""Estimates of a snapshot's files, rows and bytes, within bounds that always hold, by at most two more requests.

    checksum file -> commits after it -> commits after the base -> base

A checksum file and the base each say what the table has at their version: the manifest of a metadata sidecar, or the
footers of a checkpoint, which count files. The live adds of the commits after that are counted where those were read
with the snapshot, or are few; each key in them may hide one file of the state before, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from delta_sidecar._arrow import to_numpy
from delta_sidecar.errors import SidecarError, UnreadableFileError
from delta_sidecar.log.names import checksum_path, read_checksum
from delta_sidecar.log.stats import parse_num_records
from delta_sidecar.plan import FILE_LABEL, Consume, FileSummary, ReadFiles, ReadFooters, ScanJson
from delta_sidecar.replay.bases.base import raise_unreachable
from delta_sidecar.replay.bases.checkpoint import BaseRows, CheckpointBase, CheckpointContent, is_torn
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.files import struct_fields
from delta_sidecar.replay.request import ScanRequest
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.snapshot import CHECKSUM_BYTES
from delta_sidecar.replay.tail import LiveAdds, Tail, commit_schema, live_adds_plan, naming_commits
from delta_sidecar.sidecar.layout import matching

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from delta_sidecar.plan import FileRef, Flow
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.snapshot import Snapshot

MOST_REQUESTS = 2
"""Requests that are made beyond those of the snapshot."""

_ONE_REQUEST = 8 << 20
_PATH, _SIDECAR = "add.path", "sidecar.path"


class Range(Struct, frozen=True):
    """A number that is not known exactly. Both bounds hold, and belong to it.

    Attributes:
        lower: It is no smaller.
        upper: It is no larger; None where that is not known.
    """

    lower: int = 0
    upper: int | None = None

    @classmethod
    def exactly(cls, number: int | None) -> Range:
        """A number that is known; None for one that is not."""
        return cls() if number is None else cls(number, number)

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.lower == self.upper

    def __add__(self, other: Range) -> Range:
        is_open = self.upper is None or other.upper is None
        return Range(self.lower + other.lower, None if is_open else (self.upper or 0) + (other.upper or 0))

    def less(self, most: int | None) -> Range:
        """The number, of which up to so much may be taken away; None for any amount."""
        return Range(0 if most is None else max(0, self.lower - most), self.upper)

    def at_most(self, most: int) -> Range:
        """The number, or `most` where it is larger."""
        return Range(min(self.lower, most), most if self.upper is None else min(self.upper, most))


class Counts(Struct, frozen=True):
    """Ranges for the numbers of files, of rows that are not deleted, and of bytes."""

    files: Range = Range()
    rows: Range = Range()
    bytes: Range = Range()

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    @property
    def is_exact(self) -> bool:
        """Whether all three are known."""
        return self.files.is_exact and self.rows.is_exact and self.bytes.is_exact

    def any_part(self) -> Counts:
        """Of some of the files, maybe none."""
        return Counts(*(Range(0, number.upper) for number in (self.files, self.rows, self.bytes)))

    def tidy(self) -> Counts:
        """Without files there are no rows and no bytes."""
        return NOTHING if self.files.upper == 0 else self

    def better(self, other: Counts) -> Counts:
        """Each of the numbers as it is here, unless only the other one is exact or bounded."""
        pairs = ((self.files, other.files), (self.rows, other.rows), (self.bytes, other.bytes))
        return Counts(*(this if this.is_exact or not _is_better(that, this) else that for this, that in pairs))


def _is_better(that: Range, this: Range) -> bool:
    return that.is_exact or (this.upper is None and that.upper is not None)


NOTHING = Counts(*(Range(0, 0),) * 3)
"""Of no files."""


class Estimate(Struct, frozen=True):
    """The estimated files, rows and bytes of a snapshot."""

    counts: Counts  # files, rows and bytes; with a predicate those of files that may match
    sources: tuple[str, ...] = ()  # what was used, in words


def estimate(snapshot: Snapshot, predicate: Predicate | None = None) -> Flow[Estimate]:
    """Estimates what a table has; to be run by the executor that opened the snapshot, which has kept what it read.

    With a predicate, only files that may match count; it may be that none does.
    """
    request = ScanRequest.bind(snapshot.table, snapshot.columns, predicate, ("size", "stats"))
    choice, tail = snapshot.choice, _TailCounter(request)
    found = Counts()
    sources: tuple[str, ...] = ()
    version = max((at for at in choice.segment.checksums if at >= choice.base_version), default=None)
    state = None if version is None else (yield from _in_checksum(version))
    if version is not None and state is not None:
        rest = yield from tail.count(Tail.of(choice.segment, version))
        if not rest:
            found, sources = tail.over(state), (f"checksum file {version:020}.crc", *tail.words())
    if found.is_exact and request.pruning is None:
        return Estimate(found, sources)
    rest = yield from tail.count(choice.tail(tail.reach))
    base = choice.bases[0] if choice.bases else None
    cost = _cost(base)
    if rest and cost is not None and len(rest) + cost <= MOST_REQUESTS and _is_small(rest):
        rest = yield from tail.count(rest, kept_only=False)
    if not rest and cost is not None:
        state, source = yield from _in_base(base, request)
        if state is not None:
            known = tail.over(state)
            sources = tuple(dict.fromkeys((*(() if known.is_exact else sources), source, *tail.words())))
            found = known.better(found)
    found = found.tidy()
    return Estimate(found if request.pruning is None else found.any_part(), sources)


def files_in_base(snapshot: Snapshot) -> Flow[int | None]:
    """The number of files in the first base, where it is known without a request."""
    choice = snapshot.choice
    base = choice.bases[0] if choice.bases else None
    if base is None or base.num_files is not None:
        return 0 if base is None else base.num_files
    if snapshot.counted is not None and snapshot.counted[0] == base.version:
        return snapshot.counted[1]
    if not isinstance(base, CheckpointBase) or base.leaves is None:
        return None
    state, _ = yield from _in_base(base, ScanRequest.bind(snapshot.table, snapshot.columns), most_requests=0)
    return None if state is None or not state.counts.files.is_exact else state.counts.files.lower


class _State(Struct, frozen=True):
    """The totals of a table at a version, and bounds on its largest file."""

    counts: Counts
    largest: int | None = None
    most_rows: int | None = None

    def under(self, keys: int) -> Counts:
        """The counts where so many files may be hidden."""
        if not keys:
            return self.counts
        rows, size = (None if most is None else keys * most for most in (self.most_rows, self.largest))
        return Counts(self.counts.files.less(keys), self.counts.rows.less(rows), self.counts.bytes.less(size))


class _TailCounter(Struct):
    """Counts what commits add, newest first, and how many keys they have."""

    request: ScanRequest
    counts: Counts = NOTHING
    reach: int | None = None
    versions: set[int] = field(default_factory=set)
    seen: SeenSet = field(default_factory=SeenSet)

    def count(self, commits: Tail, *, kept_only: bool = True) -> Flow[Tail]:
        """Counts commits, as far as they were kept or all of them; gives those that are left."""
        live = LiveAdds(self.seen, self.request.columns, self.request.pruning)
        for window in commits.windows():
            plan = replace(
                live_adds_plan(window, self.request.columns, self.request.pruning), keep=True, kept_only=kept_only
            )
            before = len(self.versions)
            with naming_commits(self.request.table):
                for batch in (yield Consume(plan)):
                    self.versions.update(batch.column(FILE_LABEL).to_pylist())
                    files = live(batch)
                    self.counts += NOTHING if files is None else _counts_of(files)
            live.flush()
            if len(self.versions) - before < len(window):
                self.reach = min(self.versions, default=commits.newest + 1) - 1
                return commits.up_to(self.reach)
        self.reach = commits.base
        return commits.up_to(commits.base)

    def over(self, state: _State) -> Counts:
        """The commits together with the state before them."""
        return (state.under(len(self.seen)) + self.counts).tidy()

    def words(self) -> tuple[str, ...]:
        """The commits, in words."""
        number = len(self.versions)
        return (f"{number} commit{'s' if number > 1 else ''} after it",) if number else ()


def _in_checksum(version: int) -> Flow[_State | None]:
    """The number and size of files by a checksum file, which was kept."""
    for batch in (yield Consume(ReadFiles((checksum_path(version),), max_bytes=CHECKSUM_BYTES))):
        content = batch.column("data")[0].as_py()
        checksum = read_checksum(content) if content is not None else None
        if checksum is not None and (checksum.num_files, checksum.num_bytes) != (None, None):
            counts = Counts(Range.exactly(checksum.num_files), Range(), Range.exactly(checksum.num_bytes))
            return _State(counts.tidy(), checksum.num_bytes)
    return None


def _in_base(base: object, request: ScanRequest, most_requests: int = MOST_REQUESTS) -> Flow[tuple[_State | None, str]]:
    """The totals of a base, or with a predicate of row groups that may hold a match; and the source in words."""
    if base is None:
        return _State(NOTHING, 0, 0), "the start of the log"
    if isinstance(base, SidecarBase):
        return _in_manifest(base, request), f"metadata sidecar {base.name}"
    if not isinstance(base, CheckpointBase):
        return None, ""
    try:
        return (yield from _in_footers(base, request, most_requests))
    except UnreadableFileError as error:
        if not is_torn(error):
            raise_unreachable("the checkpoint", error)
            raise
        return None, ""


def _in_manifest(base: SidecarBase, request: ScanRequest) -> _State | None:
    if base.layout is None:
        return None
    manifest = base.layout.manifest
    try:
        runs = manifest.runs
    except SidecarError:
        # A scan finds that out too, and takes the next base.
        return None
    totals = manifest.totals
    rows, size = (None, None) if totals is None else (totals.rows, totals.bytes)
    counts = Counts(Range.exactly(manifest.num_files), Range.exactly(rows), Range.exactly(size))
    if request.pruning is not None:
        files = sum(run.num_rows for run in matching(base.layout, runs, request.pruning))
        counts = replace(counts.any_part(), files=Range.exactly(files))
    return _State(counts.tidy(), *((None, None) if totals is None else (totals.largest, totals.most_rows)))


def _in_footers(base: CheckpointBase, request: ScanRequest, most_requests: int) -> Flow[tuple[_State | None, str]]:
    """The number of files by the footers. Those that were read when it was trusted cost nothing.

    One that was not trusted yet must prove to be a checkpoint, and to name no other files. The top of a V2 checkpoint
    in JSON may have file actions of its own: it was kept, and is counted too.
    """
    leaves = base.files if base.leaves is None else base.leaves
    tables = tuple(leaf for leaf in leaves if not leaf.path.endswith(".json"))
    texts = tuple(leaf for leaf in leaves if leaf.path.endswith(".json"))
    names = (_PATH,) if base.leaves is not None else tuple({_PATH, _SIDECAR, *CheckpointContent.columns})
    summaries = [_summary(batch) for batch in (yield Consume(ReadFooters(tables, names, most_requests)))]
    if len(summaries) < len(tables):
        return None, ""
    if base.leaves is None:
        CheckpointContent(has_top=True)(summaries)
        if any(summary.values.get(_SIDECAR, 0) != 0 for summary in summaries):
            return None, ""
    counts = [summary.values.get(_PATH, 0) for summary in summaries]
    rows = sum(summary.rows for summary in summaries)
    files = Range(0, rows) if None in counts else Range.exactly(sum(count or 0 for count in counts))
    found = NOTHING if files.upper == 0 else Counts(files)
    if texts:
        inside = yield from _in_texts(texts, request)
        return (None if inside is None else _State(found + inside)), f"the files of {base.name}"
    return _State(found), f"the footers of {base.name}"


def _summary(batch: pa.RecordBatch) -> FileSummary:
    whole, *rows = batch.to_pylist()
    values: dict[str, int | None] = {}
    for row in rows:
        before = values.get(row["column"], 0)
        values[row["column"]] = None if before is None or row["values"] is None else before + row["values"]
    return FileSummary(whole["path"], whole["rows"], values)


def _in_texts(files: tuple[FileRef, ...], request: ScanRequest) -> Flow[Counts | None]:
    physical = tuple(name for _, name in request.columns.partition_columns)
    rows = BaseRows(SeenSet(), request.columns, request.pruning, path=files[0].path)
    total = None
    plan = ScanJson(files, commit_schema(physical), lines_with=(b'"tags"',), keep=True, kept_only=True)
    for batch in (yield Consume(plan)):
        found = rows(batch)
        total = (total or NOTHING) + (NOTHING if found is None else _counts_of(found))
    return total


def _cost(base: object) -> int | None:
    """Requests that counting the base takes at least; None where it cannot be counted."""
    if not isinstance(base, CheckpointBase):
        return 0 if base is None or (isinstance(base, SidecarBase) and base.layout is not None) else None
    if base.leaves is not None:
        return 0
    is_read = len(base.files) <= MOST_REQUESTS and not any(file.path.endswith(".json") for file in base.files)
    return len(base.files) if is_read else None


def _is_small(commits: Tail) -> bool:
    return all((ref.size or 0) <= _ONE_REQUEST for ref in next(commits.windows(), ()))


def _counts_of(files: pa.RecordBatch) -> Counts:
    """The totals of a batch of files; of rows, as far as statistics say."""
    size = _values(files.column("size"))
    known = size[size >= 0]
    # Python's numbers do not overflow.
    total = sum(known.tolist())
    sizes = Range(total, total if len(known) == files.num_rows else None)
    return Counts(Range.exactly(files.num_rows), _rows(files), sizes)


def _rows(files: pa.RecordBatch) -> Range:
    records = _values(parse_num_records(files.column("stats")))
    vectors = files.column("deletion_vector")
    has_vector, deleted = to_numpy(vectors.is_valid()), _values(struct_fields(vectors)["cardinality"])
    left = np.maximum(records - np.where(has_vector, np.maximum(deleted, 0), 0), 0)
    # Without a count of the deleted rows all of them may be.
    lower = np.where((records >= 0) & ((deleted >= 0) | ~has_vector), left, 0)
    return Range(sum(lower.tolist()), sum(left.tolist()) if (records >= 0).all() else None)


def _values(column: pa.Int64Array) -> NDArray[np.int64]:
    """The values, negative where there is none."""
    return np.where(to_numpy(column.is_valid()), to_numpy(column), -1)

"""The flows that emit the live files of a snapshot.

    reverse:  commits, newest first -> base
    forward:  keys of the commits -> base -> commits, newest first

A tail is read in windows. A scan that goes on where another one stopped only remembers the keys of what that one
emitted. Where a base proves unusable before its first row, the commits up to it are replayed too and the next base is
taken; in reverse, what was already emitted stays right, for it came from newer commits. A metadata sidecar that fails
later is followed by the next base as well: the keys that it emitted are read again and count as seen.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from delta_sidecar.errors import PageTokenExpiredError, StrictModeError, UnreadableFileError
from delta_sidecar.events import BaseChosen, FallbackTriggered
from delta_sidecar.plan import Consume, FilterOrdered, PartialResult
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Torn
from delta_sidecar.replay.failures import raise_commit_failure
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.snapshot import passed_over
from delta_sidecar.replay.tail import LiveAdds, StrictMode, TailKeys, live_adds_plan, tail_keys_plan

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.log.segment import Tail
    from delta_sidecar.plan import Flow
    from delta_sidecar.predicate import Predicate
    from delta_sidecar.replay.bases.base import Emitted
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.snapshot import BaseChoice, Snapshot


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan that came to its end.

    Attributes:
        snapshot: The table at its version.
        predicate: The physical predicate that files were pruned by; None for all files.
        base_version: Version of the base that the replay ended on; -1 where it went down to version 0.
        unusable: Names of the bases that were passed over.
        seen_keys: How many keys of the tail were remembered.
    """

    snapshot: Snapshot
    predicate: Predicate | None
    base_version: int
    unusable: frozenset[str]
    seen_keys: int

    @property
    def logical_schema(self) -> pa.Schema:
        """The table's columns, under the names that users see."""
        return self.snapshot.columns.logical

    @property
    def physical_schema(self) -> pa.Schema:
        """The same columns, under the names that data files have."""
        return self.snapshot.columns.physical

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in order."""
        return self.snapshot.partition_columns


def scan(snapshot: Snapshot, request: ScanRequest) -> Flow[Scan]:
    """Emits the live files of a table that may match, in the direction that is asked for."""
    replay = _Replay(snapshot, request)
    return (yield from replay.forward() if request.forward else replay.reverse())


class _Replay:
    """A scan under way."""

    def __init__(self, snapshot: Snapshot, request: ScanRequest) -> None:
        self._snapshot = snapshot
        self._request = request
        self._strict = StrictMode(request.strict, request.fallback)
        self._progress = request.progress
        self._progress.choice, self._progress.emitted = snapshot.choice, request.emitted
        self._choice = snapshot.choice
        self._seen: SeenSet
        self._uncounted: list[Emitted]
        self._forget()

    def reverse(self) -> Flow[Scan]:
        """The newest commits first, then the base."""
        commits = self._choice.tail()
        if self._request.start is not None:
            # The commits above the place were emitted by an earlier scan, and those of its place may not all be.
            version = self._request.start_version
            emitted = commits if version is None else commits.above(version)
            yield from self._remember(emitted)
            commits = commits.up_to(emitted.base)
        while True:
            yield from self._replay(commits)
            reach = self._choice.tail_base
            yield from self._count_emitted(reach)
            try:
                yield from self._emit_base()
            except Torn as torn:
                yield from self._pass_over(torn)
                # The next base may even be newer, where another listing shows it: what was emitted is remembered too.
                self._set(replace(self._choice, reach=reach))
                commits = self._choice.tail(reach)
                continue
            return self._end()

    def forward(self) -> Flow[Scan]:
        """The base first, then the commits after it: which adds are live is found from the newest commit down."""
        version = self._request.start_version
        while version is None:
            yield from self._remember(self._choice.tail())
            yield from self._count_emitted(self._choice.tail_base)
            try:
                yield from self._emit_base()
                self._forget()
                break
            except Torn as torn:
                yield from self._pass_over(torn)
                # Files that a newer base than the one that failed has besides come with the tail.
                reach = min((each.reach for each in self._progress.emitted), default=None)
                self._set(replace(self._choice, reach=reach))
                self._forget()
        commits = self._choice.tail()
        if version is not None:
            yield from self._remember(commits.above(version))
            commits = commits.up_to(version)
        yield from self._replay(commits)
        return self._end()

    def _replay(self, commits: Tail) -> Flow[None]:
        """Emits the live adds of commits, newest first."""
        while self._uncounted and commits and self._uncounted[0].reach > commits.base:
            reach = self._uncounted[0].reach
            yield from self._replay_window(commits.above(reach))
            yield from self._count_emitted(reach)
            commits = commits.up_to(reach)
        yield from self._replay_window(commits)

    def _replay_window(self, commits: Tail) -> Flow[None]:
        request = self._request
        live = LiveAdds(self._seen, request.columns, request.pruning, self._progress)
        while commits:
            plan = self._strict.watch(live_adds_plan(commits, request.columns, request.files_at_once))
            try:
                yield PartialResult(FilterOrdered(plan, live))
            except StrictModeError as error:
                # It is read again, unwatched. What was emitted before is remembered, and does not come again.
                self._relax(error)
                commits = commits.up_to(error.version)
                continue
            except UnreadableFileError as error:
                raise_commit_failure(request.table, error)
                raise
            live.flush()
            commits = commits.rest()

    def _remember(self, commits: Tail) -> Flow[None]:
        """Remembers the keys of commits, so that the base can go first, or that a scan can go on after them."""
        lowest = commits.base
        while commits:
            plan = self._strict.watch(tail_keys_plan(commits, self._request.files_at_once))
            try:
                TailKeys(self._seen).take((yield Consume(plan)))
            except StrictModeError as error:
                self._relax(error)
                continue
            except UnreadableFileError as error:
                raise_commit_failure(self._request.table, error)
                raise
            commits = commits.rest()
        yield from self._count_emitted(lowest + 1)

    def _count_emitted(self, reach: int) -> Flow[None]:
        """Counts what failed bases emitted as seen, of those whose tail ended above a version."""
        while self._uncounted and self._uncounted[0].reach >= reach:
            emitted = self._uncounted.pop(0)
            yield from emitted.base.emitted_keys(emitted, self._request, self._seen)

    def _emit_base(self) -> Flow[None]:
        request = self._request
        if not self._choice.bases:
            request.events(BaseChosen(table=request.table, base="", version=-1, tier=CHECKPOINT_TIER))
            return
        base = yield from self._choice.bases[0].trust(with_table=False)
        self._set(self._choice.learned(base))
        request.events(BaseChosen(table=request.table, base=base.name, version=base.version, tier=base.tier))
        yield from base.emit(request.of_base(), self._seen.freeze())

    def _pass_over(self, torn: Torn) -> Flow[None]:
        """Goes on with the next base."""
        request, base = self._request, self._choice.bases[0]
        if torn.emitted is not None:
            emitted = replace(torn.emitted, reach=self._choice.tail_base)
            self._progress.emitted += (emitted,)
            if not request.forward:
                # Lookups in the frozen set may still be under way; more keys go into another one.
                self._seen = self._progress.watch(deepcopy(self._seen))
                yield from base.emitted_keys(emitted, request, self._seen)
        elif request.starts_in_base:
            msg = f"{request.table}: {base.name}, which the page token is a place in, cannot be used: {torn.reason}"
            raise PageTokenExpiredError(msg) from torn.reason
        self._request = replace(request, start=None)
        self._set((yield from passed_over(request.table, self._choice, torn.reason, request.events)))

    def _relax(self, error: StrictModeError) -> None:
        self._strict.disarm(self._request.table, error)
        table = self._request.table
        self._request.events(FallbackTriggered(table=table, action=error.action, version=error.version))

    def _set(self, choice: BaseChoice) -> None:
        self._choice = self._progress.choice = choice

    def _forget(self) -> None:
        """Begins with no key again."""
        self._seen = self._progress.watch(SeenSet(self._request.seen_memory))
        self._uncounted = sorted(self._progress.emitted, key=lambda each: -each.reach)

    def _end(self) -> Scan:
        choice, pruning = self._choice, self._request.pruning
        predicate = None if pruning is None else pruning.predicate
        snapshot = replace(self._snapshot, choice=choice)
        return Scan(snapshot, predicate, choice.base_version, choice.unusable, len(self._seen))

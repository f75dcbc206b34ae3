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
from typing import TYPE_CHECKING

from msgspec.structs import replace

from delta_sidecar.errors import PageTokenExpiredError, StrictModeError
from delta_sidecar.events import BaseChosen, FallbackTriggered
from delta_sidecar.log.names import manifest_name, sidecar_name
from delta_sidecar.log.segment import ListedSidecar
from delta_sidecar.plan import Consume, FilterOrdered, PartialResult
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Torn
from delta_sidecar.replay.bases.choice import passed_over
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.seen.seen import SeenSet
from delta_sidecar.replay.tail import (
    WINDOW,
    LiveAdds,
    TailKeys,
    live_adds_plan,
    naming_commits,
    tail_keys_plan,
    watched,
)

if TYPE_CHECKING:
    from delta_sidecar.plan import Flow
    from delta_sidecar.replay.bases.base import Base
    from delta_sidecar.replay.bases.choice import BaseChoice
    from delta_sidecar.replay.request import Emitted, ScanRequest
    from delta_sidecar.replay.tail import Tail


def emit_files(choice: BaseChoice, request: ScanRequest) -> Flow[tuple[BaseChoice, int]]:
    """Emits the live files of a log that may match.

    Returns:
        The bases from the one down that it ended on, and how many keys of the tail were remembered.
    """
    replay = _Replay(choice, request)
    choice = yield from replay.forward() if request.forward else replay.reverse()
    return choice, len(replay.seen)


class _Replay:
    """A scan under way."""

    def __init__(self, choice: BaseChoice, request: ScanRequest) -> None:
        self._request = request
        self._is_strict = request.strict
        self._progress = request.progress
        self._progress.emitted = request.emitted
        self._failed: dict[str, Base] = {}
        self._set(choice)
        self.seen: SeenSet
        self._uncounted: list[Emitted]
        self._forget()

    def reverse(self) -> Flow[BaseChoice]:
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
            return self._choice

    def forward(self) -> Flow[BaseChoice]:
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
        return self._choice

    def _replay(self, commits: Tail) -> Flow[None]:
        """Emits the live adds of commits, newest first."""
        while self._uncounted and commits and self._uncounted[0].reach > commits.base:
            reach = self._uncounted[0].reach
            yield from self._replay_window(commits.above(reach))
            yield from self._count_emitted(reach)
            commits = commits.up_to(reach)
        yield from self._replay_window(commits)

    def _replay_window(self, commits: Tail, live: LiveAdds | None = None) -> Flow[None]:
        request = self._request
        live = live or LiveAdds(self.seen, request.columns, request.pruning, self._progress)
        for window in commits.windows():
            # Who wants few files may have them in the newest commit.
            together = WINDOW if request.limit is None else 1
            plan = live_adds_plan(window, request.columns, request.pruning, request.files_at_once, together)
            try:
                with naming_commits(request.table):
                    yield PartialResult(FilterOrdered(watched(plan) if self._is_strict else plan, live))
            except StrictModeError as error:
                # It is read again, unwatched. What was emitted before is remembered, and does not come again; and the
                # removes of that commit are held back until its end, as before.
                self._relax(error)
                yield from self._replay_window(commits.up_to(error.version), live)
                return
            live.flush()

    def _remember(self, commits: Tail) -> Flow[None]:
        """Remembers the keys of commits, so that the base can go first, or that a scan can go on after them."""
        for window in commits.windows():
            plan = tail_keys_plan(window, self._request.files_at_once)
            with naming_commits(self._request.table):
                try:
                    TailKeys(self.seen).take((yield Consume(watched(plan) if self._is_strict else plan)))
                except StrictModeError as error:
                    self._relax(error)
                    TailKeys(self.seen).take((yield Consume(plan)))

    def _count_emitted(self, reach: int) -> Flow[None]:
        """Counts what failed bases emitted as seen, of those whose tail ended above a version."""
        while self._uncounted and self._uncounted[0].reach >= reach:
            emitted = self._uncounted.pop(0)
            base = self._failed.get(emitted.base) or (yield from self._base_of_earlier_page(emitted))
            yield from base.emitted_keys(emitted, self._request, self.seen)

    def _base_of_earlier_page(self, emitted: Emitted) -> Flow[Base]:
        """A metadata sidecar that failed on an earlier page.

        Raises:
            PageTokenExpiredError: It is gone, or another one.
        """
        tiers = {manifest_name(emitted.version): 1, sidecar_name(emitted.version): 2}
        if emitted.base not in tiers or emitted.base not in self._choice.segment.sidecars:
            raise self._gone(emitted, "it is gone")
        segment = self._choice.segment
        base = SidecarBase.of(segment, ListedSidecar.of(segment.sidecars, emitted.version, tiers[emitted.base]))
        if emitted.identity not in base.identity.values():
            raise self._gone(emitted, "it was replaced")
        try:
            return (yield from base.trust(with_table=False))
        except Torn as torn:
            raise self._gone(emitted, str(torn)) from torn.reason

    def _gone(self, emitted: Emitted, reason: str) -> PageTokenExpiredError:
        msg = (
            f"{self._request.table}: {emitted.base}, which files of earlier pages came from, cannot be read again "
            f"({reason}): begin at the first page"
        )
        return PageTokenExpiredError(msg)

    def _emit_base(self) -> Flow[None]:
        request = self._request
        if not self._choice.bases:
            request.events(BaseChosen(table=request.table, base="", version=-1, tier=CHECKPOINT_TIER))
            return
        base = yield from self._choice.bases[0].trust(with_table=False)
        self._set(self._choice.learned(base))
        request.events(BaseChosen(table=request.table, base=base.name, version=base.version, tier=base.tier))
        yield from base.emit(request.of_base(), self.seen.freeze())

    def _pass_over(self, torn: Torn) -> Flow[None]:
        """Goes on with the next base."""
        request, base = self._request, self._choice.bases[0]
        if torn.emitted is not None:
            emitted = replace(torn.emitted, reach=self._choice.tail_base)
            self._progress.emitted += (emitted,)
            self._failed[base.name] = base
            if not request.forward:
                # Lookups in the frozen set may still be under way; more keys go into another one.
                self.seen = self._progress.seen = deepcopy(self.seen)
                yield from base.emitted_keys(emitted, request, self.seen)
        elif request.starts_in_base:
            msg = f"{request.table}: {base.name}, which the page token is a place in, cannot be used: {torn.reason}"
            raise PageTokenExpiredError(msg) from torn.reason
        self._request = replace(request, start=None)
        self._set((yield from passed_over(request.table, self._choice, torn.reason, request.events)))

    def _relax(self, error: StrictModeError) -> None:
        """Commits are not watched any more, if the scan may go on."""
        table = self._request.table
        if not self._request.fallback:
            msg = f"{table}: {error}. Scan it without strict mode, or with enable_fallback."
            raise StrictModeError(msg, error.action, error.version) from error
        self._is_strict = False
        self._request.events(FallbackTriggered(table=table, action=error.action, version=error.version))

    def _set(self, choice: BaseChoice) -> None:
        self._choice, self._progress.base = choice, choice.mark

    def _forget(self) -> None:
        """Begins with no key again."""
        self.seen = self._progress.seen = SeenSet(self._request.seen_memory)
        self._uncounted = sorted(self._progress.emitted, key=lambda each: -each.reach)

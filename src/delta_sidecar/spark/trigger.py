"""The checkpoint trigger: every so many commits a checkpoint by Delta, then a metadata sidecar of the same version.

    commit -> checkpoint -> data files of the sidecar -> its manifest

Each step leaves a table that every reader reads rightly, so that it may be cut off anywhere. The next trigger looks at
what is there and makes what is missing; what is there and good is not made again. The batch is committed before any of
this: a failure here is reported, and never fails the write.

Of several pipelines on a table one makes the checkpoint and the sidecar of a version, by the marks in their commits:

    10  OPTIMIZE           the version that is due
    11  pipeline a         the first commit of a pipeline from there on: its turn
    12  pipeline b         leaves it to a
    ...
    17  pipeline b         later than 11 by the lease: b's turn, where it still has not been made

A pipeline that never makes checkpoints, or makes them at other versions, is not waited for. All read the same commits,
with times by the store's clock, and come to the same answer without asking one another. Should two do the work all the
same, both make the same, and nothing is lost but time.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from delta_sidecar.errors import DeltaSidecarError, ObjectNotFoundError, StorageError
from delta_sidecar.events import CheckpointTriggered, Events
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import commit_path
from delta_sidecar.log.segment import ListedFile
from delta_sidecar.plan import run_flow
from delta_sidecar.replay.bases.choice import bases_of, distrust
from delta_sidecar.replay.open import NO_HINT, Opening, read_hint, read_listing
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.access import hadoop_url
from delta_sidecar.spark.build import build_sidecar
from delta_sidecar.spark.commits import Mark, mark_in
from delta_sidecar.spark.spark_errors import SPARK_ERRORS, error_line
from delta_sidecar.store.client import options_of
from delta_sidecar.store.options import canonical
from delta_sidecar.store.redaction import Scrubber

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from delta_sidecar.build import BuildSummary
    from delta_sidecar.events import Listener
    from delta_sidecar.log.segment import CommitRange, LogSegment
    from delta_sidecar.plan import Executor
    from delta_sidecar.store import Store


logger = logging.getLogger("delta_sidecar.spark")

DEFAULT_LEASE = timedelta(minutes=10)

# A version that has failed so often is left alone for so long.
_MOST_FAILURES = 3
_REST_SECONDS = 300.0

Outcome: TypeAlias = Literal["complete", "already_there", "left_to_another", "passed_over", "failed"]


@dataclass(frozen=True, slots=True)
class TriggerOutcome:
    """The outcome for a version that was due.

    Attributes:
        version: The version.
        outcome: `complete`: what was missing is there now. `already_there`: nothing was missing. `left_to_another`: it
            is the turn of another pipeline. `passed_over`: its commit is cleaned up already, so that a newer version
            has taken its place. `failed`: something is missing still; a later commit tries again, or after several
            failures one that comes some minutes later.
        pipeline: App id of the pipeline whose turn it was; None where that was not asked.
        made_checkpoint: Whether a checkpoint was made.
        sidecar: The summary of the metadata sidecar's build; None where there was none.
        error: What went wrong, in a line; None where nothing did.
        seconds: How long it took.
    """

    version: int
    outcome: Outcome
    pipeline: str | None = None
    made_checkpoint: bool = False
    sidecar: BuildSummary | None = None
    error: str | None = None
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for JSON."""
        return asdict(self)


class CheckpointTrigger:
    """Gives every `interval`-th version of a table a checkpoint and a metadata sidecar.

    `app_id` is the one that the pipeline's commits are marked with; after the `lease` it is another pipeline's turn.
    """

    def __init__(  # noqa: PLR0913 - every option by its name
        self,
        spark: SparkSession,
        table_url: str | os.PathLike[str],
        store: Store,
        interval: int,
        *,
        app_id: str,
        storage_options: Mapping[str, str] | None = None,
        lease: timedelta = DEFAULT_LEASE,
        build_options: Mapping[str, Any] | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._spark = spark
        self._table_url = table_url
        self._store = store
        self._interval = interval
        self._app_id = app_id
        self._storage_options = dict(storage_options or {})
        self._lease = lease // timedelta(milliseconds=1)
        self._build_options = dict(build_options or {})
        self._listeners = tuple(listeners)
        self._events = Events(self._listeners)
        self._lock = threading.Lock()
        self._settled = 0
        self._failures: dict[int, list[float]] = {}  # the times of failures in a row, of one due version
        self._marks: dict[int, Mark | None] = {}

    def after(self, version: int, *, committed: bool = True) -> TriggerOutcome | None:
        """Makes what is due after a commit, if it is this pipeline's turn. Call it after every batch of the pipeline.

        Args:
            version: The version that was committed.
            committed: Whether the pipeline committed it; else it is the newest version, by any writer.

        Returns:
            The outcome; None where nothing is due, or it was settled before.
        """
        due = version - version % self._interval
        with self._lock:
            if version < self._settled:
                # The table was made anew, and its versions begin again.
                self._settled = 0
            if due <= self._settled:
                return None
            began = time.monotonic()
            try:
                outcome = self._settle(due, version, committed=committed)
            except Exception as error:  # noqa: BLE001 - the batch is written, and what is missing is made later
                self._failures = {due: [*self._failures.get(due, ()), time.monotonic()]}
                outcome = TriggerOutcome(due, "failed", error=f"{type(error).__name__}: {self._line(error)}")
            if outcome is None:
                return None
            outcome = replace(outcome, seconds=time.monotonic() - began)
            if outcome.outcome not in {"failed", "left_to_another"}:
                self._settled = due
                self._marks.clear()
            self._report(outcome)
            return outcome

    def _settle(self, due: int, version: int, *, committed: bool) -> TriggerOutcome | None:
        state = due_state(self._store, due)
        if state.is_complete:
            return TriggerOutcome(due, "already_there")
        if due not in state.commits:
            return TriggerOutcome(due, "passed_over")
        turn = whose_turn(self._turns(state, due, version, version if committed else None), self._lease)
        if turn is None and not committed:
            # The next pipeline that commits looks after it.
            return None
        pipeline = self._app_id if turn is None else turn.pipeline
        if pipeline != self._app_id:
            return TriggerOutcome(due, "left_to_another", pipeline)
        failures = self._failures.get(due, [])
        if len(failures) >= _MOST_FAILURES and time.monotonic() - failures[-1] < _REST_SECONDS:
            msg = f"it failed {len(failures)} times, the last time a short while ago, and is left alone for now"
            return TriggerOutcome(due, "failed", pipeline, error=msg)
        # Pipelines of one app id have the same marks; those of this process wait for each other.
        with _LOCKS.setdefault(self._store.url, threading.Lock()):
            return self._make(due, pipeline)

    def _make(self, due: int, pipeline: str) -> TriggerOutcome:
        state = due_state(self._store, due)
        if state.is_complete:
            return TriggerOutcome(due, "already_there")
        if not state.has_checkpoint:
            self._make_checkpoint(due, state)
        sidecar = None
        if not state.has_sidecar:
            sidecar = build_sidecar(
                self._spark,
                self._table_url,
                version=due,
                storage_options=self._storage_options,
                store=self._store,
                listeners=self._listeners,
                **self._build_options,
            )
        return TriggerOutcome(due, "complete", pipeline, not state.has_checkpoint, sidecar)

    def _turns(self, state: DueState, due: int, version: int, own: int | None) -> Iterator[Turn]:
        """The commits of pipelines that look after the due version; the own commit counts without a mark too."""
        for at in range(due, version + 1):
            if at not in self._marks:
                self._marks[at] = mark_in(self._store, at) or (Mark(self._app_id) if at == own else None)
            mark = self._marks[at]
            if mark is not None and mark.looks_after(due, at) and at in state.commits:
                yield Turn(at, state.commits.time(at), mark.pipeline)

    def _make_checkpoint(self, due: int, state: DueState) -> None:
        failure = None
        try:
            delta_log.checkpoint(self._spark, hadoop_url(self._table_url, self._storage_options), due)
        except SPARK_ERRORS as error:
            failure = error
        # Delta logs what goes wrong with a checkpoint, and raises nothing.
        if failure is None and due_state(self._store, due).has_checkpoint:
            return
        if state.damage is not None:
            msg = (
                f"Delta makes no checkpoint of version {due} of {self._store.url} while there is one that it cannot "
                f"read, {state.damage}: move that file away if the commits up to it are all there"
            )
            raise StorageError(msg) from failure
        if failure is not None:
            raise failure
        msg = f"Delta made no checkpoint of version {due} of {self._store.url}: the log of Spark says why"
        raise StorageError(msg)

    def _line(self, error: Exception) -> str:
        values = canonical(self._storage_options, options_of("local"))
        scrubber = Scrubber(values[each.key] for each in options_of("local") if each.secret and each.key in values)
        if isinstance(error, DeltaSidecarError):
            return scrubber.scrub(str(error).partition("\n")[0])
        return error_line(str(error), scrubber) or "no more is known"

    def _report(self, outcome: TriggerOutcome) -> None:
        if outcome.error is not None:
            logger.warning(
                "%s: version %d lacks its checkpoint or its metadata sidecar. What was written is safe. %s",
                self._store.url,
                outcome.version,
                outcome.error,
            )
        self._events(
            CheckpointTriggered(
                table=self._store.url,
                outcome=outcome.outcome,
                error=None if outcome.error is None else outcome.error.partition(":")[0],
                milliseconds=1000 * outcome.seconds,
                version=outcome.version,
                made_checkpoint=outcome.made_checkpoint,
                built_sidecar=outcome.sidecar is not None and not outcome.sidecar.already_there,
            )
        )


_LOCKS: dict[str, threading.Lock] = {}
"""The lock of each table, for all triggers of this process."""


class Turn(NamedTuple):
    """A commit of a pipeline that looks after a due version."""

    version: int
    time: int  # when it was written, in milliseconds since the epoch
    pipeline: str


def whose_turn(commits: Iterable[Turn], lease: int) -> Turn | None:
    """Of the commits from the due version on, the one by which it is its pipeline's turn; None where there are none.

    The turn passes on to the next commit that is later by the lease, in milliseconds.
    """
    holder = None
    for commit in commits:
        if holder is None or commit.time - holder.time >= lease:
            holder = commit
    return holder


# The log from a due version on. A checkpoint or a metadata sidecar counts only where a reader would use it: not a
# checkpoint that is torn, nor a metadata sidecar that lacks a file or belongs to an earlier table at the same place.


_MOST_PROBED = 10


@dataclass(frozen=True, slots=True)
class DueState:
    """The log from a due version on."""

    commits: CommitRange  # up to the newest
    has_checkpoint: bool  # of the version or a newer one, with a `_last_checkpoint` that says so
    has_sidecar: bool  # of the version or a newer one, with its manifest
    damage: str | None = None  # of a checkpoint that is listed and cannot be used

    @property
    def is_complete(self) -> bool:
        """True if nothing is missing."""
        return self.has_checkpoint and self.has_sidecar


def due_state(store: Store, version: int) -> DueState:
    """Looks at a log from a version on: a listing, and of what it shows the manifests and footers.

    A listing that lacks the version is made again in full, and commits that it lacks still are asked for by name.
    """
    with closing(open_executor(store)) as executor:
        segment = _listed(store, executor, version)
        bases = [base for base in bases_of(segment) if base.version >= version]
        faults = {tier: [distrust(base, executor) for base in bases if base.tier == tier] for tier in (1, 3)}
        _, hint = run_flow(read_hint(), executor)
    has_checkpoint = None in faults[3] and hint is not None and hint >= version
    return DueState(segment.commits, has_checkpoint, None in faults[1], next(filter(None, faults[3]), None))


def _listed(store: Store, executor: Executor, version: int) -> LogSegment:
    for start in (version, NO_HINT):
        listing = run_flow(read_listing(Opening(store.url, hint=start)), executor)
        segment = listing.segment(listing.latest)
        if version in segment.commits:
            return segment
    for missing in listing.missing(max(listing.latest, version), _MOST_PROBED, version - 1):
        with suppress(ObjectNotFoundError):
            found = store.head(commit_path(missing))
            listing.add(ListedFile(found.path, found.size, found.last_modified))
    return listing.segment(listing.latest)

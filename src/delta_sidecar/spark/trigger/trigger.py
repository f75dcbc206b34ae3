"""The checkpoint trigger: every so many commits a checkpoint by Delta, then a metadata sidecar of the same version.

    commit -> checkpoint -> data files of the sidecar -> its manifest

Each step leaves a table that every reader reads rightly, so that it may be cut off anywhere. Whoever comes next looks
at what is there and makes what is missing; what is there and good is not made again. The batch is committed before any
of this: a failure here is told, and never fails the write.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from delta_sidecar.errors import ObjectNotFoundError, OptionError, StorageError
from delta_sidecar.events import CheckpointTriggered, Events
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import LAST_CHECKPOINT, LOG_FOLDER, commit_path, last_checkpoint_version, listing_start
from delta_sidecar.log.segment import ListedFile, LogSegmentBuilder
from delta_sidecar.replay.snapshot import bases_of, distrust
from delta_sidecar.spark import delta_log
from delta_sidecar.spark.build.build import build_sidecar
from delta_sidecar.spark.failures import SPARK_ERRORS
from delta_sidecar.spark.session.access import hadoop_url
from delta_sidecar.spark.trigger.ownership import Mark, Turn, mark_in, whose_turn
from delta_sidecar.store import open_store
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
    from delta_sidecar.store import ObjectMeta, Store


logger = logging.getLogger("delta_sidecar.spark")

DEFAULT_LEASE = timedelta(minutes=10)

# What has failed so often is left alone for so long.
_MOST_FAILURES = 3
_REST_SECONDS = 300.0

_CAUSE = re.compile(r"(?:: |Caused by: )?([\w.$]+(?:Error|Exception)\b.*)")
_LONGEST = 400

Outcome: TypeAlias = Literal["complete", "already_there", "left_to_another", "passed_over", "failed"]


@dataclass(frozen=True, slots=True)
class TriggerOutcome:
    """What came of a version that was due.

    Attributes:
        version: The version.
        outcome: `complete`: what was missing is there now. `already_there`: nothing was missing. `left_to_another`: it
            is the turn of another pipeline. `passed_over`: its commit is cleaned up already, so that a newer version
            has taken its place. `failed`: something is missing still; a later commit tries again, or after several
            failures one that comes some minutes later.
        pipeline: App id of the pipeline whose turn it was; None where that was not asked.
        made_checkpoint: Whether a checkpoint was made.
        sidecar: What the build of the metadata sidecar says; None where there was none.
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
    """Sees to it that every `interval`-th version of a table has a checkpoint and a metadata sidecar.

    Args:
        spark: The session.
        table_url: The table's root.
        interval: How many versions lie between two that are due.
        app_id: The pipeline's own, which its commits are marked with (see `ownership.pipeline_mark`).
        storage_options: Options of the store, by name.
        sidecars: Whether there are to be metadata sidecars; else only checkpoints.
        lease: After so long it is another pipeline's turn.
        build_options: More options for `build_sidecar`, by name.
        listeners: Are told of events.
        store: A store that is open already, in the place of `table_url`'s.

    Raises:
        OptionError: The interval, the lease, the address or a storage option is not valid.
    """

    def __init__(  # noqa: PLR0913 - every option by its name
        self,
        spark: SparkSession,
        table_url: str | os.PathLike[str],
        interval: int,
        *,
        app_id: str,
        storage_options: Mapping[str, str] | None = None,
        sidecars: bool = True,
        lease: timedelta = DEFAULT_LEASE,
        build_options: Mapping[str, Any] | None = None,
        listeners: Iterable[Listener] = (),
        store: Store | None = None,
    ) -> None:
        _check(interval, lease)
        self._spark = spark
        self._table_url = table_url
        self._interval = interval
        self._app_id = app_id
        self._storage_options = dict(storage_options or {})
        self._sidecars = sidecars
        self._lease = lease // timedelta(milliseconds=1)
        self._build_options = dict(build_options or {})
        self._listeners = tuple(listeners)
        self._events = Events(self._listeners)
        self._store = store or open_store(table_url, storage_options)
        self._lock = threading.Lock()
        self._settled = 0
        self._failures = _Failures()
        self._marks: dict[int, Mark | None] = {}

    def after(self, version: int, *, committed: bool = True) -> TriggerOutcome | None:
        """Makes what is due after a commit, if it is this pipeline's turn. Call it after every batch of the pipeline.

        Args:
            version: The version that was committed.
            committed: Whether the pipeline committed it; else it is the newest that is there, whoever did.

        Returns:
            What came of it; None where nothing is due, or it was seen to before.
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
                outcome = self._seen_to(due, version, committed=committed)
            except Exception as error:  # noqa: BLE001 - the batch is written, and what is missing is made later
                self._failures = self._failures.one_more(due)
                outcome = TriggerOutcome(due, "failed", error=f"{type(error).__name__}: {self._in_a_line(error)}")
            if outcome is None:
                return None
            outcome = replace(outcome, seconds=time.monotonic() - began)
            if outcome.outcome not in {"failed", "left_to_another"}:
                self._settled = due
                self._marks.clear()
            self._tell(outcome)
            return outcome

    def _seen_to(self, due: int, version: int, *, committed: bool) -> TriggerOutcome | None:
        standing = standing_from(self._store, due)
        if self._is_whole(standing):
            return TriggerOutcome(due, "already_there")
        if due not in standing.commits:
            return TriggerOutcome(due, "passed_over")
        own = version if committed else None
        turn = whose_turn(self._turns(standing, due, version, own), self._lease)
        if turn is None and not committed:
            # The next pipeline that commits looks after it.
            return None
        pipeline = self._app_id if turn is None else turn.pipeline
        if pipeline != self._app_id:
            return TriggerOutcome(due, "left_to_another", pipeline)
        if self._failures.rest(due):
            msg = f"it failed {self._failures.count} times, the last time a short while ago, and is left alone for now"
            return TriggerOutcome(due, "failed", pipeline, error=msg)
        # Pipelines under one app id cannot be told apart by their marks; those of this process wait for each other.
        with _lock_of(self._store.url):
            return self._made(due, pipeline)

    def _is_whole(self, standing: Standing) -> bool:
        return standing.has_checkpoint and (standing.has_sidecar or not self._sidecars)

    def _made(self, due: int, pipeline: str) -> TriggerOutcome:
        standing = standing_from(self._store, due)
        if self._is_whole(standing):
            return TriggerOutcome(due, "already_there")
        if not standing.has_checkpoint:
            self._make_checkpoint(due, standing)
        sidecar = self._build(due) if self._sidecars and not standing.has_sidecar else None
        return TriggerOutcome(due, "complete", pipeline, not standing.has_checkpoint, sidecar)

    def _turns(self, standing: Standing, due: int, version: int, own: int | None) -> Iterator[Turn]:
        """The commits whose pipelines look after the due version; one's own counts without a mark too."""
        for at in range(due, version + 1):
            if at not in self._marks:
                self._marks[at] = mark_in(self._store, at) or (Mark(self._app_id) if at == own else None)
            mark = self._marks[at]
            if mark is not None and mark.may_see_to(due, at) and at in standing.commits:
                yield Turn(at, standing.commits.time(at), mark.pipeline)

    def _make_checkpoint(self, due: int, standing: Standing) -> None:
        failure = None
        try:
            delta_log.checkpoint(self._spark, hadoop_url(self._table_url, self._storage_options), due)
        except SPARK_ERRORS as error:
            failure = error
        # Delta logs what goes wrong with a checkpoint, and raises nothing.
        if failure is None and standing_from(self._store, due).has_checkpoint:
            return
        if standing.damage is not None:
            msg = (
                f"Delta makes no checkpoint of version {due} of {self._store.url} while there is one that it cannot "
                f"read, {standing.damage}: move that file away if the commits up to it are all there"
            )
            raise StorageError(msg) from failure
        if failure is not None:
            raise failure
        msg = f"Delta made no checkpoint of version {due} of {self._store.url}: the log of Spark says why"
        raise StorageError(msg)

    def _build(self, due: int) -> BuildSummary:
        return build_sidecar(
            self._spark,
            self._table_url,
            version=due,
            storage_options=self._storage_options,
            store=self._store,
            listeners=self._listeners,
            **self._build_options,
        )

    def _in_a_line(self, error: Exception) -> str:
        """What an error says, without secrets. Those of the JVM and of its workers say their cause last."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [found[1] for line in lines if (found := _CAUSE.match(line))]
        secret = {option.key for option in options_of("local") if option.secret}
        values = canonical(self._storage_options, options_of("local"))
        scrubber = Scrubber(value for key, value in values.items() if key in secret)
        return scrubber.scrub((causes or lines or ["no more is known"])[-1 if causes else 0])[:_LONGEST]

    def _tell(self, outcome: TriggerOutcome) -> None:
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


@dataclass(frozen=True, slots=True)
class _Failures:
    """How often a version that was due has failed.

    Attributes:
        due: The version.
        count: How often.
        last: When it was the last time.
    """

    due: int = 0
    count: int = 0
    last: float = 0.0

    def one_more(self, due: int) -> _Failures:
        """The same after another failure."""
        return _Failures(due, self.count + 1 if due == self.due else 1, time.monotonic())

    def rest(self, due: int) -> bool:
        """Whether a version is left alone for now."""
        is_often = due == self.due and self.count >= _MOST_FAILURES
        return is_often and time.monotonic() - self.last < _REST_SECONDS


_LOCKS: dict[str, threading.Lock] = {}
_LOCKS_LOCK = threading.Lock()


def _lock_of(table: str) -> threading.Lock:
    """The lock of a table, for all triggers of this process."""
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(table, threading.Lock())


def _check(interval: object, lease: object) -> None:
    if isinstance(interval, bool) or not isinstance(interval, int) or interval < 1:
        msg = f"the checkpoint interval must be a whole number from 1 on, not {interval!r}"
        raise OptionError(msg)
    if not isinstance(lease, timedelta) or lease < timedelta():
        msg = f"the lease must be a span of time, zero or more, not {lease!r}"
        raise OptionError(msg)


# What the log of a table has from a version on: its commits, a checkpoint, a metadata sidecar.
#
# Both count only where a reader would use them: not a checkpoint that is torn, nor a metadata sidecar that lacks a file
# or belongs to an earlier table at the same place.


_HINT_BYTES = 1 << 20
_MOST_PROBED = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """What there is from a version on.

    Attributes:
        commits: The commits, version after version, up to the newest.
        has_checkpoint: Whether there is a checkpoint of the version or a newer one, and `_last_checkpoint` says so.
        has_sidecar: Whether there is a metadata sidecar of the version or a newer one, with its manifest.
        damage: What is wrong with a checkpoint that is listed and cannot be used; None where there is no such one.
    """

    commits: CommitRange
    has_checkpoint: bool
    has_sidecar: bool
    damage: str | None = None


def standing_from(store: Store, version: int) -> Standing:
    """Looks at a log from a version on: a listing, and of what it shows the manifests and footers.

    A listing that lacks the version is made again in full, and commits that it lacks still are asked for by name.

    Raises:
        StorageError: The store did not do what was asked.
    """
    segment = _listed(store, version)
    bases = [base for base in bases_of(segment) if base.version >= version]
    with closing(open_executor(store)) as executor:

        def faults(tier: int) -> list[str | None]:
            return [distrust(base, executor) for base in bases if base.tier == tier]

        checkpoints, sidecars = faults(3), faults(1)
    has_checkpoint = None in checkpoints and _hinted(store) >= version
    return Standing(segment.commits, has_checkpoint, None in sidecars, next(filter(None, checkpoints), None))


def _listed(store: Store, version: int) -> LogSegment:
    builder = LogSegmentBuilder(complete=False)
    for after in (listing_start(version), None):
        for page in store.list(LOG_FOLDER, after=after):
            builder.add_all(map(_file, page))
        segment = builder.build(builder.latest)
        if version in segment.commits:
            return segment
    for missing in builder.missing(max(builder.latest, version), _MOST_PROBED, version - 1):
        with suppress(ObjectNotFoundError):
            builder.add(_file(store.head(commit_path(missing))))
    return builder.build(builder.latest)


def _file(found: ObjectMeta) -> ListedFile:
    return ListedFile(found.path, found.size, found.last_modified, found.e_tag)


def _hinted(store: Store) -> int:
    try:
        hint = last_checkpoint_version(bytes(store.get(LAST_CHECKPOINT, max_bytes=_HINT_BYTES).data))
    except ObjectNotFoundError:
        return -1
    return -1 if hint is None else hint

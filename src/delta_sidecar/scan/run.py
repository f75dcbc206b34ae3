"""One run of a scan: from opening the table to its last batch, and the account of it."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from delta_sidecar.errors import LogCorruptionError, StorageError, UnreadableFileError
from delta_sidecar.events import (
    BaseChosen,
    BasePassedOver,
    Event,
    Events,
    FallbackTriggered,
    FirstFileFound,
    ScanEnded,
    StrategyChosen,
)
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import parse_sidecar_name
from delta_sidecar.plan import ExecutionCounts, StateMachineIterator, run_flow
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER
from delta_sidecar.replay.files import FILE_SCHEMA
from delta_sidecar.replay.request import Question, ReplayProgress
from delta_sidecar.replay.snapshot import Scan, scan
from delta_sidecar.scan.config import ScanStrategy
from delta_sidecar.scan.files import ScanMetrics
from delta_sidecar.scan.pages import PageToken, query_digest
from delta_sidecar.scan.request import Decision, TableOpener, bind_request, decide
from delta_sidecar.scan.stream import Cursor, EarlierFiles
from delta_sidecar.store import RequestLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from delta_sidecar.events import Listener, Outcome
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.plan import Batches, Executor, Flow
    from delta_sidecar.replay.request import ScanRequest
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig, ScanOptions
    from delta_sidecar.scan.explain import Explanation
    from delta_sidecar.store import Store


class _Begun(Struct, frozen=True):
    """A table that is open, and what it was opened with."""

    executor: Executor
    snapshot: Snapshot
    options: ScanOptions
    question: Question


class ScanRun:
    """One run of a scan, taken by one consumer.

    A snapshot or a segment is the table, or its log, as it was opened or listed earlier; the configuration then names
    its version. With `recent_if_cheap` the newest files come first where the base has them in order of time.
    """

    def __init__(
        self,
        store: Store,
        config: LazyScanConfig,
        listeners: Iterable[Listener] = (),
        snapshot: Snapshot | None = None,
        *,
        segment: LogSegment | None = None,
        recent_if_cheap: bool = False,
    ) -> None:
        self.config = config
        self._recent_if_cheap = recent_if_cheap
        self.events = Events((self._count, *listeners))
        self.requests = RequestLog()  # counts them, and stops them
        self.progress = ReplayProgress()
        self.decision: Decision | None = None
        self._store = store
        self._opener = TableOpener(store.url, config, self.events, segment)
        self._given = snapshot
        self._begun: _Begun | None = None
        self._ran_by: Executor | None = None
        self._cursor: Cursor | None = None
        self._query: tuple[object, ...] = ()
        self._scan: Scan | None = None
        self._began = time.monotonic()
        self._trips_to_first_file: int | None = None
        self._files = self._batches = self._fallbacks = 0
        self._passed_over: list[tuple[str, str]] = []
        self._chosen: BaseChosen | None = None
        self._files_before_base = 0
        self._fallback_code: str | None = None
        self._keys: tuple[int | None, str] = (None, "keys")  # how many keys there were at the end, and where

    @property
    def snapshot(self) -> Snapshot | None:
        """The table, as soon as it is open."""
        return self._opener.snapshot

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot | None) -> None:
        self._opener.snapshot = snapshot

    def pin(self) -> LogSegment:
        """Lists the log up to the version that is asked for; nothing of the table is read."""
        with self._executing() as executor:
            return self._opener.pin(executor)

    def open(self) -> Snapshot:
        """Reads the version, protocol and metadata of the table; no file of it is listed."""
        with self._executing() as executor:
            return self._opener.open(executor)[0]

    def begin(self, schema: pa.Schema = FILE_SCHEMA) -> Snapshot:
        """Opens the table for a scan of some columns, which `batches` then goes on with; `close` gives it up."""
        if self._begun is None:
            executor = self._executor()
            try:
                self._begun = self._begin(schema, executor)
            except BaseException:
                executor.close()
                raise
        return self._begun.snapshot

    def close(self) -> None:
        """Stops the requests, and gives up a scan that was begun."""
        self.requests.cancel()
        if self._begun is not None:
            self._begun.executor.close()

    def explain(self) -> Explanation:
        """Says what the scan is going to do; no file entry is read."""
        from delta_sidecar.scan.explain import FallenBack, explained, look_at_base

        with self._executing() as executor:
            snapshot, options = self._opener.open(executor)
            request = bind_request(self.config, options, snapshot, Question(self.config.parsed_predicate))
            decision = self._decide(snapshot, options, request, executor)
            base = run_flow(look_at_base(snapshot, request, self.events), executor)
        fallen_back = FallenBack(self._passed_over, self.sidecar_fallback_reason())
        at_once = options.sidecar_row_groups_per_batch
        return explained(self.config, snapshot, request, decision, base, fallen_back, self.requests.snapshot(), at_once)

    def batches(self, schema: pa.Schema, *, by_file: bool = False) -> Batches:
        """Gives the files in batches.

        Args:
            schema: Which columns.
            by_file: Whether the consumer says itself, by `take`, which files of a batch it was given.
        """
        self._began = time.monotonic()
        outcome: Outcome = "failed"
        error = None
        try:
            for batch in self._found(schema):
                if not by_file:
                    self.take(batch.num_rows)
                outcome = "stopped"
                yield batch if schema is FILE_SCHEMA else batch.select(schema.names)
                outcome = "failed"
            outcome = "limit" if self._scan is None else "complete"
        except Exception as failure:
            if self.requests.cancelled:
                outcome = "stopped"
            else:
                error = type(failure).__name__
            raise
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        finally:
            self.close()
            self.events(self._end(outcome, error))

    def take(self, files: int = 1) -> None:
        """The user has so many more files of the last batch."""
        if self._cursor is not None:
            self._cursor.take(files)

    def page_token(self) -> str | None:
        """The position of the scan; None before its first file, and at its end."""
        at = None if self._cursor is None else self._cursor.position()
        base = self.progress.base
        if at is None or base is None or self._scan is not None or self.snapshot is None or self.decision is None:
            return None
        way = self.decision.strategy.value, self.decision.order
        query = query_digest(*self._query)
        return PageToken.of(self.snapshot, base, *way, query, at, self.progress.emitted).encode()

    @property
    def sidecar_tier(self) -> int | None:
        """Tier of the base; None before one is chosen, and where that one proved unusable before its first file."""
        return None if self._chosen is None else self._chosen.tier

    def sidecar_fallback_reason(self) -> str | None:
        """Why the base is not the best one there could be, in a word; None where it is, or is not known yet."""
        if self._fallback_code is not None or self.sidecar_tier == 1 or self.snapshot is None:
            return self._fallback_code
        choice = self.snapshot.choice
        if not choice.sidecars:
            return "disabled"
        if any(base.tier < CHECKPOINT_TIER for base in choice.bases):
            return "no_manifest" if self._chosen is not None else None
        parsed = map(parse_sidecar_name, choice.segment.sidecars)
        is_there = any(name is not None and name.version <= self.snapshot.version for name in parsed)
        return "too_old" if is_there else "none"

    @property
    def _counts(self) -> ExecutionCounts:
        return ExecutionCounts() if self._ran_by is None else self._ran_by.progress.counts

    def metrics(self) -> ScanMetrics:
        """The metrics of the run so far."""
        snapshot, counts, entries = self.snapshot, self._counts, self.progress.counts()
        base, seen = self.progress.base, self.progress.seen
        seen_keys, seen_tier = self._keys if seen is None else (len(seen), seen.tier)
        return ScanMetrics(
            requests=self.requests.snapshot(),
            trips_to_first_file=self._trips_to_first_file,
            files_emitted=self._files,
            batches_emitted=self._batches,
            commits_read=counts.files_read,
            row_groups_read=counts.row_groups_read,
            row_groups_skipped=counts.row_groups_skipped,
            entries=entries,
            seen_keys=seen_keys,
            seen_tier=seen_tier,
            fallbacks=self._fallbacks,
            version=None if snapshot is None else snapshot.version,
            base_version=None if base is None else base.version,
            is_complete=self._scan is not None,
        )

    def _found(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._found_in(schema)
        except (LogCorruptionError, StorageError, UnreadableFileError):
            is_pinned = self._given is not None or self._opener.segment is not None
            earlier = self.snapshot
            if not is_pinned or earlier is None or self._files or self.requests.cancelled:
                raise
            # What a snapshot that was opened earlier is made of may have been cleaned up meanwhile, and its version
            # still be there. The same version of a table made anew or restored at the same place is another one.
            self._given = self._begun = None
            self._opener = replace(self._opener, segment=None)
            now = self.begin(schema)
            if not now.choice.segment.is_same_history(earlier.choice.segment):
                raise
            yield from self._found_in(schema)

    def _found_in(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self.begin(schema)
        begun = self._begun
        if begun is None:
            return
        with closing(begun.executor) as executor:
            flow = self._start(begun)
            if self.config.limit == 0:
                return
            yield from self._sliced(flow, executor, begun.options.batch_size)

    def _begin(self, schema: pa.Schema, executor: Executor) -> _Begun:
        names = schema.names if self.config.steps.projection else FILE_SCHEMA.names
        question = Question(self.config.parsed_predicate, tuple(names))
        if self._given is None:
            return _Begun(executor, *self._opener.open(executor, question), question)
        self.snapshot = self._given
        return _Begun(executor, self._given, self._opener.options_of(self._given), question)

    def _decide(self, snapshot: Snapshot, options: ScanOptions, request: ScanRequest, executor: Executor) -> Decision:
        def count_base() -> int | None:
            from delta_sidecar.replay.estimate import files_in_base

            return run_flow(files_in_base(snapshot), executor)

        token = self.config.token
        predicate = None if request.pruning is None else request.pruning.predicate
        self._query = (predicate, options.bucket_column)
        if token is not None:
            token.check_query(query_digest(*self._query))
        decision = self.decision = decide(
            snapshot, options, self.config.limit, predicate, count_base, token, recent_if_cheap=self._recent_if_cheap
        )
        strategy, reason = decision.strategy.value, decision.reason
        self.events(StrategyChosen(table=self._store.url, strategy=strategy, reason=reason, order=decision.order))
        return decision

    def _start(self, begun: _Begun) -> Flow[Scan]:
        request = bind_request(self.config, begun.options, begun.snapshot, begun.question)
        decision = self._decide(begun.snapshot, begun.options, request, begun.executor)
        self._cursor = Cursor(None if self.config.token is None else self.config.token.position)
        forward, recent = decision.strategy is ScanStrategy.FORWARD, decision.order == "recent"
        request = replace(request, forward=forward, recent=recent, progress=self.progress, events=self.events)
        return scan(begun.snapshot, request)

    def _sliced(self, flow: Flow[Scan], executor: Executor, batch_size: int) -> Iterator[pa.RecordBatch]:
        limit, token = self.config.limit, self.config.token
        earlier = None if token is None else EarlierFiles(token.position)
        with closing(StateMachineIterator(flow, executor)) as machine:
            for found in list(machine) if self.config.steps.collected else machine:
                progress = executor.progress
                rows, places = found.num_rows, progress.places
                first = 0 if earlier is None else earlier.passed_over(rows, places)
                if first and self._cursor is not None:
                    self._cursor.give(places, rows, 0)
                for start in range(first, rows, batch_size):
                    batch = found.slice(start, batch_size)
                    if limit is not None:
                        batch = batch.slice(0, limit - self._files)
                    if not batch.num_rows:
                        break
                    self._tell_first(progress.trips)
                    self._files += batch.num_rows
                    self._batches += 1
                    if self._cursor is not None:
                        self._cursor.give(places, rows, start)
                    yield batch
                    if self._files == self.config.early_end:
                        return
            if earlier is not None:
                earlier.check()
            self._scan = machine.into_terminal()

    @contextmanager
    def _executing(self) -> Iterator[Executor]:
        with closing(self._executor()) as executor:
            try:
                yield executor
            finally:
                self.requests.cancel()

    def _executor(self) -> Executor:
        options = self.config.options()
        executor = open_executor(
            self._store.bind(self.requests),
            file_parallelism=options.commit_read_parallelism,
            row_groups_ahead=options.checkpoint_row_groups_per_batch,
        )
        self._ran_by = executor
        return executor

    def _count(self, event: Event) -> None:
        if isinstance(event, FallbackTriggered):
            self._fallbacks += 1
        elif isinstance(event, BasePassedOver):
            self._passed_over.append((event.base, event.reason))
            if event.tier < CHECKPOINT_TIER:
                self._fallback_code = self._fallback_code or event.code
            is_chosen = self._chosen is not None and self._chosen.base == event.base
            if is_chosen and self._files == self._files_before_base:
                self._chosen = None
                self.progress.drop_base()
        elif isinstance(event, BaseChosen):
            self._chosen, self._files_before_base = event, self._files

    def _tell_first(self, trips: int) -> None:
        if self._trips_to_first_file is None:
            self._trips_to_first_file = trips
            taken = round((time.monotonic() - self._began) * 1000, 3)
            self.events(FirstFileFound(table=self._store.url, milliseconds=taken, trips=trips))

    def _end(self, outcome: Outcome, error: str | None) -> ScanEnded:
        tier, reason = self.sidecar_tier, self.sidecar_fallback_reason()
        metrics = self.metrics()
        # The keys go, with their files.
        self._keys, self.progress.seen = (metrics.seen_keys, metrics.seen_tier), None
        return ScanEnded(
            table=self._store.url,
            outcome=outcome,
            error=error,
            milliseconds=round((time.monotonic() - self._began) * 1000, 3),
            version=metrics.version,
            strategy=None if self.decision is None else self.decision.strategy.value,
            files_emitted=metrics.files_emitted,
            commits_scanned=metrics.commits_read,
            requests=metrics.requests.requests,
            bytes=metrics.requests.bytes,
            trips=metrics.requests.trips,
            row_groups_read=metrics.row_groups_read,
            row_groups_skipped=metrics.row_groups_skipped,
            sidecar_tier=tier,
            sidecar_fallback_reason=reason,
            sidecar_row_groups_read=self._counts.piece_groups_read,
            sidecar_row_groups_skipped=self._counts.piece_groups_skipped,
            remove_set_size=metrics.seen_keys or 0,
            remove_set_tier=metrics.seen_tier,
        )

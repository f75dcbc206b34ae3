"""`inspect_table`: from an address to a report.

It reads `_last_checkpoint`, lists the whole log, opens the table as a scan does, estimates its files and looks at its
metadata sidecars and at the footers of its newest checkpoint. A table that a scan refuses is reported too, with the
reason.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from delta_sidecar.errors import DeltaProtocolError, LogCorruptionError, UnsupportedFeatureError
from delta_sidecar.events import BasePassedOver, Event, Events
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.health.checkpoint_form import checkpoint_form
from delta_sidecar.health.findings import Facts, findings_of
from delta_sidecar.health.inventory import LogInventory, watched
from delta_sidecar.health.report import (
    BaseReport,
    MetadataReport,
    ProtocolReport,
    RequestReport,
    TableReport,
    TailReport,
)
from delta_sidecar.health.sidecar_report import UnusableSidecar
from delta_sidecar.health.sidecars import TrustedBase, sidecars_of
from delta_sidecar.log.features import check_readable
from delta_sidecar.log.hints import last_checkpoint_version
from delta_sidecar.log.in_commit_timestamps import enablement
from delta_sidecar.log.names import LAST_CHECKPOINT
from delta_sidecar.plan import Consume, ConsumePhase, ReadFiles, StateMachineIterator, StateMachinePhase, Terminus
from delta_sidecar.replay.bases import CHECKPOINT_TIER
from delta_sidecar.replay.checkpoint import CheckpointBase
from delta_sidecar.replay.choice import BaseChoice
from delta_sidecar.replay.estimate import estimate
from delta_sidecar.replay.opening import Opening
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.estimate import ScanEstimate
from delta_sidecar.scan.opening import pinned
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from delta_sidecar.events import Listener
    from delta_sidecar.health.sidecar_report import SidecarsReport
    from delta_sidecar.store import Store, TokenCredential

_OURS = "deltaSidecar."
_HINT_BYTES = 1 << 20
_MOST_CHECKPOINTS = 20

Hint = tuple[bool, int | None]
"""Whether `_last_checkpoint` is there, and the version that it names."""


def inspect_table(
    table_url: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: dt.datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    credential: TokenCredential | None = None,
    store: Store | None = None,
    listeners: Iterable[Listener] = (),
) -> TableReport:
    """Looks at a table's log: what there is, and what would slow a reader down.

    The file list is not built: memory and requests do not grow with the files, only with the pages of the listing.

    Args:
        table_url: A path or an address.
        version: The version to look at; None for the newest.
        timestamp: The version to look at, as the newest one up to this time.
        storage_options: Credentials and settings, as object_store names them.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        store: A store to use instead of the one that the address names.
        listeners: Each is told what happens, as the events of `delta_sidecar.events`.

    Raises:
        TableNotFoundError: There is no Delta table.
        VersionNotFoundError: The version is not there.
        OptionError: The address or an option is not valid.
        StorageError: The store is out of reach; an `AuthenticationError` where it refused the credentials.
    """
    config = LazyScanConfig(version=version, timestamp=timestamp)
    store = store if store is not None else open_store(table_url, storage_options, credential=credential)
    requests = RequestLog()
    with closing(LocalExecutor(store.bind(requests))) as executor:
        try:
            looking = _Inspection(store.url, config, executor, listeners)
            report = looking.run()
        finally:
            requests.cancel()
    counts = requests.snapshot()
    return replace(report, requests=RequestReport(counts.requests, counts.bytes, counts.trips))


@dataclass(slots=True)
class _Inspection:
    """One inspection under way."""

    table: str
    config: LazyScanConfig
    executor: LocalExecutor
    listeners: Iterable[Listener]
    inventory: LogInventory = field(default_factory=LogInventory)
    torn: dict[str, str] = field(default_factory=dict)
    unusable: list[UnusableSidecar] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)

    def run(self) -> TableReport:
        hint = StateMachineIterator(Consume(HintPhase()), self.executor).run_to_terminal()
        snapshot, refusal = self._open()
        protocol = None if snapshot is None else _protocol(snapshot)
        unsupported: tuple[str, ...] = ()
        if snapshot is not None:
            try:
                check_readable(snapshot.protocol, self.table)
            except DeltaProtocolError as error:
                refusal = str(error)
                unsupported = error.features if isinstance(error, UnsupportedFeatureError) else ()
        protocol = None if protocol is None else replace(protocol, unsupported=unsupported)
        metadata, bucket = self._metadata(snapshot)
        base = None if snapshot is None else self._base(snapshot, metadata)
        sidecars = None if snapshot is None else sidecars_of(snapshot, bucket, self.unusable)
        has_base = base is not None or (sidecars is not None and sidecars.base is not None)
        if snapshot is not None and refusal is None and not has_base and not snapshot.choice.segment.from_start:
            refusal = f"{self.table} has no checkpoint left that can be used, and its log does not begin at version 0"
        counted = None
        if snapshot is not None and refusal is None:
            counted, refusal = self._estimate(snapshot)
        version = self.inventory.latest if snapshot is None else snapshot.version
        tail = self._tail(snapshot, version)
        log = self.inventory.report(hint)
        incomplete = self.inventory.incomplete()
        facts = Facts(
            log=log,
            incomplete=incomplete,
            base=base,
            tail=tail,
            metadata=metadata,
            estimate=counted,
            latest=self.inventory.latest,
            unsupported=unsupported,
            refusal=refusal,
            torn=tuple(self.torn.items()),
            ignored=tuple(self.ignored.items()),
            bucket=bucket,
            sidecars=sidecars,
        )
        return TableReport(
            table=self.table,
            version=version,
            latest_version=self.inventory.latest,
            earliest_version=None if snapshot is None else self._earliest(snapshot, sidecars),
            refusal=refusal,
            protocol=protocol,
            metadata=metadata,
            log=log,
            checkpoints=tuple(self.inventory.checkpoints()[:_MOST_CHECKPOINTS]),
            incomplete_checkpoints=incomplete,
            base=base,
            tail=tail,
            metadata_sidecars=sidecars,
            estimate=counted,
            findings=findings_of(facts),
            requests=RequestReport(0, 0, 0),
        )

    def _open(self) -> tuple[Snapshot | None, str | None]:
        """Opens the table, or says why that cannot be done; the log is listed either way."""
        events = Events([self._note, *self.listeners])
        opening = Opening(
            self.table,
            self.config.version,
            speculation=0,
            listed_from=-1,
            refuse=False,
            sidecars=self.config.options().sidecar_enabled,
            events=events,
        )
        chain = watched(open_snapshot(pinned(opening, self.config, self.executor)), self.inventory)
        try:
            snapshot = self._as_scanned(StateMachineIterator(chain, self.executor).run_to_terminal())
            return self._with_manifest(snapshot, events), None
        except (DeltaProtocolError, LogCorruptionError) as error:
            if not self.inventory.files:
                raise
            return None, str(error)

    def _with_manifest(self, snapshot: Snapshot, events: Events) -> Snapshot:
        """With a metadata sidecar that is trusted, even where a checksum file made its manifest needless."""
        looking = TrustedBase(self.table, snapshot.choice, events=events).onto(snapshot.choice)
        return replace(snapshot, choice=StateMachineIterator(looking, self.executor).run_to_terminal())

    def _as_scanned(self, snapshot: Snapshot) -> Snapshot:
        """Without its metadata sidecars, where the table itself says that they are disabled."""
        choice = snapshot.choice
        is_enabled = self.config.options(snapshot.metadata.configuration, lambda *_: None).sidecar_enabled
        if is_enabled or not choice.sidecars:
            return snapshot
        return replace(snapshot, choice=BaseChoice.of(choice.segment, sidecars=False))

    def _note(self, event: Event) -> None:
        if not isinstance(event, BasePassedOver):
            return
        if event.tier < CHECKPOINT_TIER:
            self.unusable.append(UnusableSidecar(event.base, event.version, event.code, event.reason))
        else:
            self.torn[event.base] = event.reason

    def _metadata(self, snapshot: Snapshot | None) -> tuple[MetadataReport | None, str]:
        if snapshot is None:
            return None, self.config.options().bucket_column
        found, columns = snapshot.metadata, snapshot.columns
        options = self.config.options(found.configuration, self.ignored.__setitem__)
        partitions = tuple(columns.partition_columns)
        try:
            has_times = enablement(snapshot.protocol, found, self.table) is not None
        except DeltaProtocolError as error:
            has_times = True
            self.ignored["delta.enableInCommitTimestamps"] = str(error)
        report = MetadataReport(
            id=found.id,
            name=found.name,
            columns=len(columns.logical),
            partition_columns=partitions,
            bucket_column=options.bucket_column if options.bucket_column in partitions else None,
            in_commit_timestamps=has_times,
            properties={name: str(text) for name, text in found.configuration.items() if name.startswith(_OURS)},
        )
        return report, options.bucket_column

    def _estimate(self, snapshot: Snapshot) -> tuple[ScanEstimate | None, str | None]:
        """Counts the files, or says why that cannot be done."""
        try:
            found = StateMachineIterator(estimate(snapshot), self.executor).run_to_terminal()
            counts, sources = found.counts, found.sources
            plain = BaseChoice.of(snapshot.choice.segment, sidecars=False)
            is_plain = any(base.tier == CHECKPOINT_TIER for base in snapshot.choice.bases[:1])
            if not counts.is_exact and plain.bases and not is_plain:
                # A metadata sidecar counts files; the footers of a checkpoint tell more of rows and bytes.
                chain = estimate(replace(snapshot, choice=plain))
                other = StateMachineIterator(chain, self.executor).run_to_terminal()
                both = other.counts.both(counts)
                if both is not None:
                    counts, sources = both, tuple(dict.fromkeys((*sources, *other.sources)))
        except LogCorruptionError as error:
            return None, str(error)
        return ScanEstimate(snapshot.version, counts.files, counts.rows, counts.bytes, sources), None

    def _base(self, snapshot: Snapshot, metadata: MetadataReport | None) -> BaseReport | None:
        """Looks at the newest checkpoint that can be used."""
        physical = tuple(snapshot.columns.physical_partition_columns)
        bucket = None
        if metadata is not None and metadata.bucket_column is not None:
            bucket = physical[metadata.partition_columns.index(metadata.bucket_column)]
        for base in snapshot.choice.bases:
            if isinstance(base, CheckpointBase):
                chain = checkpoint_form(base, bucket, physical)
                form = StateMachineIterator(chain, self.executor).run_to_terminal()
                if form.torn is None:
                    return form.report
                self.torn[base.name] = form.torn
        return None

    def _tail(self, snapshot: Snapshot | None, version: int) -> TailReport:
        usable = [found.version for found in self.inventory.checkpoints() if found.version <= version]
        if snapshot is not None:
            usable = self._usable(snapshot)
        versions, sizes = self.inventory.commits_after(max(usable, default=-1), version)
        largest = max(zip(sizes, versions, strict=True), default=(0, None))
        return TailReport(len(versions), sum(sizes), largest[1], largest[0])

    def _usable(self, snapshot: Snapshot) -> list[int]:
        """Versions of the checkpoints that can be used."""
        bases = snapshot.choice.bases
        return [base.version for base in bases if base.tier == CHECKPOINT_TIER and base.name not in self.torn]

    def _earliest(self, snapshot: Snapshot, sidecars: SidecarsReport | None) -> int | None:
        if snapshot.choice.segment.from_start:
            return 0
        trusted = [] if sidecars is None or sidecars.base is None else [sidecars.base.version]
        return min([*self._usable(snapshot), *trusted], default=None)


@dataclass(frozen=True, slots=True)
class HintPhase(ConsumePhase[Hint]):
    """Reads `_last_checkpoint`, to see what state it is in."""

    def plan(self) -> ReadFiles:
        """One small file, which may be absent."""
        return ReadFiles((LAST_CHECKPOINT,), max_bytes=_HINT_BYTES)

    def next(self, data: Iterator[pa.RecordBatch]) -> StateMachinePhase[Hint]:
        """Takes what it says."""
        for batch in data:
            content = batch.column("data")[0].as_py()
            return Terminus((True, None if content is None else last_checkpoint_version(content)))
        return Terminus((False, None))


def _protocol(snapshot: Snapshot) -> ProtocolReport:
    protocol = snapshot.protocol
    return ProtocolReport(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=tuple(protocol.reader_features or ()),
        writer_features=tuple(protocol.writer_features or ()),
        unsupported=(),
    )

"""`inspect_table`: from an address to a report.

It reads `_last_checkpoint`, lists the whole log, opens the table as a scan does, estimates its files and looks at its
metadata sidecars and at the footers of its newest checkpoint. A table that a scan refuses is reported too, with the
reason.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from delta_sidecar.errors import DeltaProtocolError, LogCorruptionError, UnreadableFileError, UnsupportedFeatureError
from delta_sidecar.events import BasePassedOver, Event, Events
from delta_sidecar.execute import open_executor
from delta_sidecar.health.findings import Facts, findings_of
from delta_sidecar.health.report import (
    BaseReport,
    CheckpointReport,
    HintReport,
    IncompleteCheckpoint,
    LogReport,
    MetadataReport,
    ProtocolReport,
    RequestReport,
    TableReport,
    TailReport,
    UnusableSidecar,
)
from delta_sidecar.health.sidecars import sidecars_of, trusted_sidecar
from delta_sidecar.log.commit_times import enablement
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind, parse_log_name
from delta_sidecar.log.schema import check_readable
from delta_sidecar.log.segment import LogSegmentBuilder
from delta_sidecar.plan import Consume, ListFiles, ReadFooters, run_flow
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Torn
from delta_sidecar.replay.bases.checkpoint import CheckpointBase, is_torn
from delta_sidecar.replay.bases.choice import BaseChoice
from delta_sidecar.replay.estimate import estimate
from delta_sidecar.replay.failures import raise_unreachable
from delta_sidecar.replay.open import NO_HINT, Opening, cut, read_hint
from delta_sidecar.replay.snapshot import Snapshot, open_snapshot
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.estimate import ScanEstimate
from delta_sidecar.scan.open import pinned
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from delta_sidecar.events import Listener
    from delta_sidecar.health.report import CheckpointKind, SidecarsReport
    from delta_sidecar.plan import Executor, Flow
    from delta_sidecar.store import Store, TokenCredential


# Everything that a listing of a log shows: a replay passes over most of it, an inspection does not.


_MOST_NAMED = 10
_HIGHEST = 2**63 - 1


@dataclass(slots=True)
class LogInventory:
    """Collects a listing, page by page, in numbers."""

    files: int = 0
    bytes: int = 0
    compacted: int = 0
    sidecar_files: int = 0
    sidecar_bytes: int = 0
    _commits: array[int] = field(default_factory=lambda: array("q"))
    _sizes: array[int] = field(default_factory=lambda: array("q"))
    _checksums: array[int] = field(default_factory=lambda: array("q"))
    _checkpoints: list[CheckpointReport] = field(default_factory=list)
    _parts: dict[tuple[int, int], dict[int, int]] = field(default_factory=lambda: defaultdict(dict))

    def add_all(self, batch: pa.RecordBatch) -> None:
        """Takes a page of the listing."""
        for path, size in zip(batch.column("path").to_pylist(), batch.column("size").to_pylist(), strict=True):
            self.add(path, size)

    def add(self, path: str, size: int) -> None:
        """Takes one listed file."""
        self.files += 1
        self.bytes += size
        if path.startswith(SIDECAR_FOLDER):
            self.sidecar_files += 1
            self.sidecar_bytes += size
            return
        name = parse_log_name(path)
        if name is None or name.version > _HIGHEST:
            return
        if name.kind is LogFileKind.COMMIT:
            self._commits.append(name.version)
            self._sizes.append(size)
        elif name.kind is LogFileKind.CHECKSUM:
            self._checksums.append(name.version)
        elif name.kind is LogFileKind.COMPACTED:
            self.compacted += 1
        elif name.kind is LogFileKind.CHECKPOINT_PART:
            self._parts[name.version, name.parts][name.part] = size
        else:
            kind: CheckpointKind = "classic" if name.kind is LogFileKind.CHECKPOINT else "V2"
            self._checkpoints.append(CheckpointReport(name.version, kind, 1, size))

    @property
    def latest(self) -> int:
        """The newest version with a commit or a complete checkpoint; -1 without any."""
        return max(max(self._commits, default=-1), max((found.version for found in self.checkpoints()), default=-1))

    def checkpoints(self) -> list[CheckpointReport]:
        """The complete checkpoints, newest first."""
        whole = [
            CheckpointReport(version, "multi-part", parts, sum(found.values()))
            for (version, parts), found in self._parts.items()
            if len(found) == parts
        ]
        return sorted([*self._checkpoints, *whole], key=lambda found: (-found.version, found.parts, found.kind))

    def incomplete(self) -> tuple[IncompleteCheckpoint, ...]:
        """The checkpoints with missing parts, newest first."""
        found = [
            IncompleteCheckpoint(version, parts, parts - len(there))
            for (version, parts), there in self._parts.items()
            if len(there) < parts
        ]
        return tuple(sorted(found, key=lambda checkpoint: -checkpoint.version))

    def commits_after(self, version: int, up_to: int) -> tuple[list[int], list[int]]:
        """Versions and sizes of the commits after a version."""
        pairs = sorted(zip(self._commits, self._sizes, strict=True))
        chosen = [pair for pair in pairs if version < pair[0] <= up_to]
        return [at for at, _ in chosen], [size for _, size in chosen]

    def missing(self) -> tuple[tuple[int, ...], int]:
        """The first versions between two commits that have none, and how many there are."""
        if not self._commits:
            return (), 0
        listed = np.unique(np.frombuffer(self._commits, dtype=np.int64))
        steps = np.diff(listed)
        named: list[int] = []
        for place in np.flatnonzero(steps > 1).tolist():
            first = int(listed[place]) + 1
            named += range(first, min(int(listed[place + 1]), first + _MOST_NAMED - len(named)))
            if len(named) >= _MOST_NAMED:
                break
        return tuple(named), int((steps - 1).sum())

    def report(self, hint: tuple[bool, int | None]) -> LogReport:
        """What there is; `hint` says whether `_last_checkpoint` is there, and which version it names."""
        missing, count = self.missing()
        return LogReport(
            files=self.files,
            bytes=self.bytes,
            commits=len(set(self._commits)),
            first_commit=min(self._commits, default=None),
            missing_commits=missing,
            missing_count=count,
            checkpoints=len(self.checkpoints()),
            checksums=len(set(self._checksums)),
            newest_checksum=max(self._checksums, default=None),
            compacted_commits=self.compacted,
            sidecar_files=self.sidecar_files,
            sidecar_bytes=self.sidecar_bytes,
            last_checkpoint=self._hint(*hint),
        )

    def _hint(self, is_there: bool, version: int | None) -> HintReport:  # noqa: FBT001 - a pair taken apart
        versions = [found.version for found in self.checkpoints()]
        if not is_there:
            return HintReport("missing", None)
        if version is None:
            return HintReport("corrupt", None)
        if version not in versions:
            return HintReport("dangling", version)
        return HintReport("stale" if version < max(versions) else "current", version)


_OURS = "deltaSidecar."
_MOST_CHECKPOINTS = 20


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
    with closing(open_executor(store.bind(requests))) as executor:
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
    executor: Executor
    listeners: Iterable[Listener]
    inventory: LogInventory = field(default_factory=LogInventory)
    torn: dict[str, str] = field(default_factory=dict)
    unusable: list[UnusableSidecar] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)

    def run(self) -> TableReport:
        hint = run_flow(read_hint(), self.executor)
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
            hint=NO_HINT,
            refuse=False,
            sidecars=self.config.options().sidecar_enabled,
            events=events,
        )
        opening = pinned(opening, self.config, self.executor)
        try:
            snapshot = self._as_scanned(run_flow(self._listed_and_open(opening), self.executor))
            return self._with_manifest(snapshot, events), None
        except (DeltaProtocolError, LogCorruptionError) as error:
            if not self.inventory.files:
                raise
            return None, str(error)

    def _listed_and_open(self, opening: Opening) -> Flow[Snapshot]:
        """Lists the log, for the inventory too, and opens the table."""
        listing = LogSegmentBuilder(wanted=opening.version)
        for batch in (yield Consume(ListFiles(LOG_FOLDER))):
            self.inventory.add_all(batch)
            listing.add_page(batch)
        segment = yield from cut(opening, listing)
        return (yield from open_snapshot(replace(opening, segment=segment)))

    def _with_manifest(self, snapshot: Snapshot, events: Events) -> Snapshot:
        """With a metadata sidecar that is trusted, even where a checksum file made its manifest needless."""
        choice = run_flow(trusted_sidecar(self.table, snapshot.choice, events), self.executor)
        return replace(snapshot, choice=choice)

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
            found = run_flow(estimate(snapshot), self.executor)
            counts, sources = found.counts, found.sources
            plain = BaseChoice.of(snapshot.choice.segment, sidecars=False)
            is_plain = any(base.tier == CHECKPOINT_TIER for base in snapshot.choice.bases[:1])
            if not counts.is_exact and plain.bases and not is_plain:
                # A metadata sidecar counts files; the footers of a checkpoint tell more of rows and bytes.
                other = run_flow(estimate(replace(snapshot, choice=plain)), self.executor)
                counts, sources = counts.better(other.counts), tuple(dict.fromkeys((*sources, *other.sources)))
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
                form = run_flow(checkpoint_form(base, bucket, physical), self.executor)
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


def _protocol(snapshot: Snapshot) -> ProtocolReport:
    protocol = snapshot.protocol
    return ProtocolReport(
        min_reader_version=protocol.min_reader_version,
        min_writer_version=protocol.min_writer_version,
        reader_features=tuple(protocol.reader_features or ()),
        writer_features=tuple(protocol.writer_features or ()),
        unsupported=(),
    )


# What the newest checkpoint is made of, by the footers of some of its files; no row of it is read.


MOST_FOOTERS = 8
"""Footers that are looked at."""

_MOST_SIDECARS = 16
_FEWEST_GROUPS = 4
_PATH = "add.path"
_SIDECAR = "sidecar.path"
_JSON = "add.stats"
_STRUCT = "add.stats_parsed.numRecords"
_PARTITIONS = "add.partitionValues.key_value.value"


@dataclass(frozen=True, slots=True)
class CheckpointForm:
    """What became of looking at a checkpoint.

    Attributes:
        report: What it is made of.
        torn: Why it cannot be used; None where it seems whole.
    """

    report: BaseReport
    torn: str | None = None


def checkpoint_form(
    base: CheckpointBase, bucket: str | None, partition_columns: tuple[str, ...]
) -> Flow[CheckpointForm]:
    """Looks at a checkpoint; `bucket` is the physical name of the time bucket, None where there is none."""
    try:
        if len(base.files) <= MOST_FOOTERS and len(base.sidecars) <= _MOST_SIDECARS:
            base = yield from base.trust(with_table=False)
        return CheckpointForm((yield from _read_form(base, _bucket_columns(bucket, partition_columns))))
    except Torn as torn:
        return CheckpointForm(_by_listing(base), str(torn.reason))
    except UnreadableFileError as error:
        if not is_torn(error):
            raise_unreachable("the checkpoint", error)
            raise
        return CheckpointForm(_by_listing(base), str(error))


def _bucket_columns(bucket: str | None, partition_columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a checkpoint that may hold the time bucket."""
    if bucket is None:
        return ()
    # In a map with values of several columns it is not known which is whose.
    is_only_one = partition_columns == (bucket,)
    return (f"add.partitionValues_parsed.{bucket}", *((_PARTITIONS,) if is_only_one else ()))


def _read_form(base: CheckpointBase, buckets: tuple[str, ...]) -> Flow[BaseReport]:
    leaves = base.files if base.leaves is None else base.leaves
    tables = [leaf for leaf in leaves if not leaf.path.endswith(".json")]
    plan = ReadFooters(tuple(tables[:MOST_FOOTERS]), (_PATH, _SIDECAR, _JSON, _STRUCT, *buckets))
    footers, rows, groups = 0, 0, 0
    columns: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in (yield Consume(plan)):
        whole, *found = batch.to_pylist()
        footers, rows, groups = footers + 1, rows + whole["rows"], groups + whole["group"]
        for row in found:
            columns[row["column"]].append(row)

    def has(name: str) -> bool:
        return any(row["values"] != 0 for row in columns[name])

    report = _by_listing(base)
    return replace(
        report,
        kind="V2" if has(_SIDECAR) else report.kind,
        footers=footers,
        row_groups=groups,
        rows=rows,
        largest_row_group=max((row["rows"] for found in columns.values() for row in found), default=0),
        json_stats=has(_JSON) if has(_PATH) else None,
        struct_stats=has(_STRUCT) if has(_PATH) else None,
        in_time_order=_in_time_order([columns[name] for name in buckets]),
    )


def _in_time_order(buckets: list[list[dict[str, Any]]]) -> bool | None:
    """Whether few row groups reach up to the newest bucket; None where there are not enough of them."""
    for rows in buckets:
        uppers = [row["upper"] for row in rows if row["upper"] is not None]
        if len(uppers) >= _FEWEST_GROUPS:
            return uppers.count(max(uppers)) * 2 <= len(uppers)
    return None


def _by_listing(base: CheckpointBase) -> BaseReport:
    leaves = base.files if base.leaves is None else base.leaves
    kind: CheckpointKind = "multi-part" if len(base.files) > 1 else "classic"
    if base.name.count(".") > _CLASSIC_DOTS and len(base.files) == 1:
        kind = "V2"
    kind = "V2" if len(leaves) > len(base.files) else kind
    return BaseReport(base.name, base.version, kind, len(leaves), sum(leaf.size or 0 for leaf in leaves))


# `{version}.checkpoint.parquet`; other names have a part number or a UUID in them.
_CLASSIC_DOTS = 2

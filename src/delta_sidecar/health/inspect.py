"""`inspect_table`: from an address to a report.

It reads `_last_checkpoint`, lists the whole log, opens the table as a scan does, estimates its files and looks at its
metadata sidecars and at the footers of its newest checkpoint. A table that a scan refuses is reported too, with the
reason.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from contextlib import closing
from itertools import starmap
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from delta_sidecar.errors import DeltaProtocolError, LogCorruptionError, UnreadableFileError, UnsupportedFeatureError
from delta_sidecar.events import BasePassedOver, Events
from delta_sidecar.execute import open_executor
from delta_sidecar.health.findings import findings_of
from delta_sidecar.health.report import (
    BaseReport,
    CheckpointReport,
    HintReport,
    IncompleteCheckpoint,
    LogReport,
    MetadataReport,
    ProtocolReport,
    RequestReport,
    SidecarReport,
    SidecarsReport,
    TableReport,
    TailReport,
    UnusableSidecar,
)
from delta_sidecar.log.commit_times import enablement
from delta_sidecar.log.names import (
    TEMPORARY_NAME,
    LogFileKind,
    SidecarFileKind,
    manifest_name,
    parse_log_name,
    parse_sidecar_name,
)
from delta_sidecar.log.schema import check_readable
from delta_sidecar.plan import Consume, ReadFooters, run_flow
from delta_sidecar.predicate.tree import written
from delta_sidecar.replay.bases.base import CHECKPOINT_TIER, Torn
from delta_sidecar.replay.bases.checkpoint import CheckpointBase, raise_if_torn
from delta_sidecar.replay.bases.choice import BaseChoice, passed_over
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.replay.estimate import estimate
from delta_sidecar.replay.open import NO_HINT, Opening, list_log, read_hint, read_listing
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.scan.config import LazyScanConfig
from delta_sidecar.scan.estimate import ScanEstimate
from delta_sidecar.scan.request import pinned
from delta_sidecar.sidecar.layout import collected_columns
from delta_sidecar.store import RequestLog, open_store

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from delta_sidecar.events import Event, Listener
    from delta_sidecar.health.report import CheckpointKind
    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.log.segment import CheckpointFiles, ListedFile, LogListing
    from delta_sidecar.plan import Executor, Flow
    from delta_sidecar.replay.bases.base import Base
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.sidecar.layout import SidecarLayout
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store import Store, TokenCredential


_OURS = "deltaSidecar."
_MOST_CHECKPOINTS = 20
_MOST_NAMED = 10


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
        listeners: Each gets the events of `delta_sidecar.events`.

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
            report = _Inspection(store.url, config, executor, listeners).run()
        finally:
            requests.cancel()
    counts = requests.snapshot()
    return dataclasses.replace(report, requests=RequestReport(counts.requests, counts.bytes, counts.trips))


class _Inspection:
    """One inspection under way."""

    def __init__(self, table: str, config: LazyScanConfig, executor: Executor, listeners: Iterable[Listener]) -> None:
        self.table, self.config, self.executor = table, config, executor
        self.events = Events((self._listen, *listeners))
        # Bases that cannot be used and properties that do not count, each with the reason.
        self.torn: dict[str, str] = {}
        self.unusable: list[UnusableSidecar] = []
        self.ignored: dict[str, str] = {}

    def run(self) -> TableReport:
        hint = run_flow(read_hint(), self.executor)
        opening = Opening(
            self.table,
            self.config.version,
            speculation=0,
            hint=NO_HINT,
            refuse=False,
            sidecars=self.config.options().sidecar_enabled,
            events=self.events,
        )
        opening = pinned(opening, self.config, self.executor)
        listing = run_flow(read_listing(opening), self.executor)
        snapshot, refusal = self._open(opening, listing)
        version, bucket = listing.latest, self.config.options().bucket_column
        usable = [found.version for found in listing.checkpoints(version)]
        earliest = protocol = metadata = base = sidecars = counted = None
        if snapshot is not None:
            version = snapshot.version
            protocol, refusal = self._protocol(snapshot)
            metadata, bucket = self._metadata(snapshot)
            base = self._base(snapshot, metadata)
            sidecars = _sidecars_report(snapshot, bucket, self.unusable)
            checkpoints = (found for found in snapshot.choice.bases if found.tier == CHECKPOINT_TIER)
            usable = [found.version for found in checkpoints if found.name not in self.torn]
            trusted = [] if sidecars.base is None else [sidecars.base.version]
            earliest = 0 if snapshot.choice.segment.from_start else min([*usable, *trusted], default=None)
            if refusal is None and earliest is None:
                refusal = (
                    f"{self.table} has no checkpoint left that can be used, and its log does not begin at version 0"
                )
            if refusal is None:
                counted, refusal = self._estimate(snapshot)
        report = TableReport(
            table=self.table,
            version=version,
            latest_version=listing.latest,
            earliest_version=earliest,
            refusal=refusal,
            protocol=protocol,
            metadata=metadata,
            log=_log_report(listing, hint),
            checkpoints=tuple(map(_checkpoint_report, listing.checkpoints(listing.latest)[:_MOST_CHECKPOINTS])),
            incomplete_checkpoints=tuple(starmap(IncompleteCheckpoint, listing.incomplete)),
            base=base,
            tail=_tail_report(listing, max(usable, default=-1), version),
            metadata_sidecars=sidecars,
            estimate=counted,
            findings=(),
            requests=RequestReport(0, 0, 0),
        )
        return dataclasses.replace(report, findings=findings_of(report, self.torn, self.ignored, bucket))

    def _open(self, opening: Opening, listing: LogListing) -> tuple[Snapshot | None, str | None]:
        """Opens the table, or says why that cannot be done."""
        try:
            segment = run_flow(list_log(opening, listing), self.executor)
            snapshot = run_flow(open_snapshot(replace(opening, segment=segment)), self.executor)
            if not self.config.options(snapshot.metadata.configuration, lambda *_: None).sidecar_enabled:
                # The table itself may say that they are disabled.
                return _without_sidecars(snapshot), None
            # The manifest is read even where a checksum file made it needless.
            choice = run_flow(_trusted_sidecar(self.table, snapshot.choice, self.events), self.executor)
            return replace(snapshot, choice=choice), None
        except (DeltaProtocolError, LogCorruptionError) as error:
            return None, str(error)

    def _listen(self, event: Event) -> None:
        if not isinstance(event, BasePassedOver):
            return
        if event.tier < CHECKPOINT_TIER:
            self.unusable.append(UnusableSidecar(event.base, event.version, event.code, event.reason))
        else:
            self.torn[event.base] = event.reason

    def _protocol(self, snapshot: Snapshot) -> tuple[ProtocolReport, str | None]:
        protocol = snapshot.protocol
        report = ProtocolReport(
            min_reader_version=protocol.min_reader_version,
            min_writer_version=protocol.min_writer_version,
            reader_features=tuple(protocol.reader_features or ()),
            writer_features=tuple(protocol.writer_features or ()),
            unsupported=(),
        )
        try:
            check_readable(protocol, self.table)
        except UnsupportedFeatureError as error:
            return dataclasses.replace(report, unsupported=error.features), str(error)
        except DeltaProtocolError as error:
            return report, str(error)
        return report, None

    def _metadata(self, snapshot: Snapshot) -> tuple[MetadataReport, str]:
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
            plain = _without_sidecars(snapshot)
            is_plain = any(base.tier == CHECKPOINT_TIER for base in snapshot.choice.bases[:1])
            if not counts.is_exact and plain.choice.bases and not is_plain:
                # A metadata sidecar counts files; the footers of a checkpoint say more of rows and bytes.
                other = run_flow(estimate(plain), self.executor)
                counts, sources = counts.better(other.counts), tuple(dict.fromkeys((*sources, *other.sources)))
        except LogCorruptionError as error:
            return None, str(error)
        return ScanEstimate(snapshot.version, counts.files, counts.rows, counts.bytes, sources), None

    def _base(self, snapshot: Snapshot, metadata: MetadataReport) -> BaseReport | None:
        """The newest checkpoint that can be used."""
        physical = snapshot.columns.physical_partition_columns
        columns: list[str] = []
        if metadata.bucket_column is not None:
            place = metadata.partition_columns.index(metadata.bucket_column)
            # In a map with values of several columns it is not known which is whose.
            in_map = [_PARTITIONS] if len(physical) == 1 else []
            columns = [f"add.partitionValues_parsed.{physical[place]}", *in_map]
        for base in snapshot.choice.bases:
            if isinstance(base, CheckpointBase):
                try:
                    return run_flow(_base_report(base, columns), self.executor)
                except Torn as torn:
                    self.torn[base.name] = str(torn.reason)
        return None


def _without_sidecars(snapshot: Snapshot) -> Snapshot:
    if not snapshot.choice.sidecars:
        return snapshot
    return replace(snapshot, choice=BaseChoice.of(snapshot.choice.segment, sidecars=False))


# Reports on the listing.


def _log_report(listing: LogListing, hint: tuple[bool, int | None]) -> LogReport:
    commits, checksums = listing.commits.versions, listing.checksums
    checkpoints = [found.version for found in listing.checkpoints(listing.latest)]
    first, last = (int(commits[0]), int(commits[-1])) if len(commits) else (0, -1)
    return LogReport(
        files=listing.files,
        bytes=listing.nbytes,
        commits=len(commits),
        first_commit=first if len(commits) else None,
        missing_commits=tuple(listing.commits.missing(first - 1, last, _MOST_NAMED)),
        missing_count=last - first + 1 - len(commits),
        checkpoints=len(checkpoints),
        checksums=len(checksums),
        newest_checksum=int(checksums[-1]) if len(checksums) else None,
        compacted_commits=listing.compacted,
        sidecar_files=len(listing.sidecars),
        sidecar_bytes=sum(file.size for file in listing.sidecars.values()),
        last_checkpoint=_hint_report(hint, checkpoints),
    )


def _hint_report(hint: tuple[bool, int | None], checkpoints: list[int]) -> HintReport:
    is_there, version = hint
    if version is None:
        return HintReport("corrupt" if is_there else "missing", None)
    if version not in checkpoints:
        return HintReport("dangling", version)
    return HintReport("stale" if version < checkpoints[0] else "current", version)


def _checkpoint_report(found: CheckpointFiles) -> CheckpointReport:
    path, size = found.files[0].path, sum(file.size for file in found.files)
    return CheckpointReport(found.version, _checkpoint_kind(path), len(found.files), size)


def _checkpoint_kind(path: str) -> CheckpointKind:
    name = parse_log_name(path)
    if name is None or name.kind is LogFileKind.CHECKPOINT:
        return "classic"
    return "multi-part" if name.kind is LogFileKind.CHECKPOINT_PART else "V2"


def _tail_report(listing: LogListing, base: int, version: int) -> TailReport:
    versions, sizes = listing.commits.sizes(base, version)
    size, largest = max(zip(sizes.tolist(), versions.tolist(), strict=True), default=(0, None))
    return TailReport(len(versions), int(sizes.sum()), largest, size)


# The newest checkpoint, by the footers of some of its files; no row of it is read.


MOST_FOOTERS = 8
"""Footers that are read."""

_MOST_SIDECARS = 16
_FEWEST_GROUPS = 4
_PATH = "add.path"
_SIDECAR = "sidecar.path"
_JSON = "add.stats"
_STRUCT = "add.stats_parsed.numRecords"
_PARTITIONS = "add.partitionValues.key_value.value"


def _base_report(base: CheckpointBase, buckets: list[str]) -> Flow[BaseReport]:
    """Reads footers of a checkpoint; raises `Torn` where it cannot be used."""
    try:
        if len(base.files) <= MOST_FOOTERS and len(base.sidecars) <= _MOST_SIDECARS:
            base = yield from base.trust(with_table=False)
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
    except UnreadableFileError as error:
        raise_if_torn("the checkpoint", error)
        raise

    def has(name: str) -> bool:
        return any(row["values"] != 0 for row in columns[name])

    is_v2 = len(leaves) > len(base.files) or has(_SIDECAR)
    return BaseReport(
        name=base.name,
        version=base.version,
        kind="V2" if is_v2 else _checkpoint_kind(base.files[0].path),
        files=len(leaves),
        bytes=sum(leaf.size or 0 for leaf in leaves),
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


# The metadata sidecars: the one that scans end on, those that cannot be used, and leftovers.


_MOST_VERSIONS = 20
# The defaults of a clean-up.
_KEPT = 2
_RETENTION = 7 * 24 * 3600 * 1000


def _trusted_sidecar(table: str, choice: BaseChoice, events: Events) -> Flow[BaseChoice]:
    """The bases from the one down that a scan would end on: a metadata sidecar only if its manifest holds."""
    while choice.bases and isinstance(choice.bases[0], SidecarBase):
        try:
            return choice.learned((yield from choice.bases[0].trust(with_table=False)))
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
    return choice


def _sidecars_report(snapshot: Snapshot, bucket: str, unusable: Sequence[UnusableSidecar]) -> SidecarsReport:
    """The metadata sidecars of a log; `unusable` are those that proved to be when the table was opened."""
    listed, choice = snapshot.choice.segment.sidecars, snapshot.choice
    ours = {name: version for name in listed if (version := _version(name)) is not None}
    there = sorted({ours[name] for name in ours if _is_first(name) and ours[name] <= snapshot.version}, reverse=True)
    base = choice.bases[0] if choice.bases else None
    layout = base.layout if isinstance(base, SidecarBase) else None
    report = None if layout is None else _sidecar_report(choice.bases[0], layout, snapshot, bucket)
    left = _leftovers(listed, ours, None if layout is None else layout.manifest)
    return SidecarsReport(
        base=report,
        reason=_sidecar_reason(report, unusable, is_there=bool(there), is_enabled=choice.sidecars),
        versions=tuple(there[:_MOST_VERSIONS]),
        files=len(ours),
        bytes=sum(listed[name].size for name in ours),
        unusable=tuple(unusable),
        leftover_files=len(left),
        leftover_bytes=sum(file.size for file in left),
    )


def _sidecar_report(base: Base, layout: SidecarLayout, snapshot: Snapshot, bucket: str) -> SidecarReport:
    manifest, columns = layout.manifest, snapshot.columns
    files = manifest.files
    logical = {physical: path for path, physical in columns.physical_names.items()}

    def shown(path: ColumnPath) -> str:
        return written(logical.get(path, path))

    collected = collected_columns(columns, snapshot.metadata.configuration)
    has = set(manifest.statistics)
    missing = [path for path, kind in collected.items() if kind is not None and path not in has]
    buckets = [column for column in columns.partition_columns if column.casefold() == bucket.casefold()]
    lacks_bucket = bool(buckets) and columns.physical_names[(buckets[0],)] != (manifest.bucket_column,)
    return SidecarReport(
        name=base.name,
        version=manifest.version,
        tier=base.tier,
        files=manifest.num_files,
        row_groups=manifest.num_row_groups,
        data_files=len(files),
        bytes=sum(file.size for file in files),
        commits=snapshot.version - manifest.version,
        sorted_by=tuple(shown(column.column) for column in manifest.sort),
        time_column=None if manifest.time_column is None else shown(manifest.time_column),
        statistics=len(has),
        missing_columns=tuple(map(shown, missing)),
        lacks_bucket=lacks_bucket,
    )


def _sidecar_reason(
    report: SidecarReport | None, unusable: Sequence[UnusableSidecar], *, is_there: bool, is_enabled: bool
) -> str | None:
    if not is_enabled:
        return "disabled"
    if unusable:
        return unusable[0].code
    if report is not None:
        return None if report.tier == 1 else "no_manifest"
    return "too_old" if is_there else "none"


def _leftovers(
    listed: Mapping[str, ListedFile], ours: Mapping[str, int], manifest: Manifest | None
) -> list[ListedFile]:
    """Files that no reader needs: by their names, for only the manifest that is used was read."""
    newest = sorted({version for name, version in ours.items() if _is_first(name)}, reverse=True)[:_KEPT]
    before = time.time() * 1000 - _RETENTION
    used: set[str] = set()
    if manifest is not None:
        used = {manifest_name(manifest.version), *(file.name for file in manifest.files)}
    left = []
    for name, version in ours.items():
        is_loose = manifest is not None and version == manifest.version and name not in used
        is_needed = version in newest and not is_loose and not TEMPORARY_NAME.fullmatch(name)
        if name not in used and not is_needed and listed[name].last_modified < before:
            left.append(listed[name])
    return left


def _version(name: str) -> int | None:
    """The version that a file of a metadata sidecar belongs to; None for files of others."""
    found, temporary = parse_sidecar_name(name), TEMPORARY_NAME.fullmatch(name)
    return found.version if found is not None else int(temporary["version"]) if temporary else None


def _is_first(name: str) -> bool:
    """Whether a metadata sidecar can be read beginning with this file."""
    found = parse_sidecar_name(name)
    return found is not None and found.kind in (SidecarFileKind.MANIFEST, SidecarFileKind.DATA)

"""The steps of a build that are the same on this machine and on a cluster.

    open the table -> lay its sidecar out -> look for one that is there -> make it -> summary

A subclass makes the sidecar.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec.structs import replace

from delta_sidecar.build.publish import BuiltSidecar, Levels, find_existing, publish_manifest, put_data, put_row_groups
from delta_sidecar.errors import BuildError, ObjectNotFoundError, OptionError, SidecarError
from delta_sidecar.events import BuildEnded, Events, PropertyIgnored
from delta_sidecar.execute import open_executor
from delta_sidecar.log.names import checksum_path, manifest_name, read_checksum, sidecar_name
from delta_sidecar.options import SCAN_OPTIONS, checked, resolve, size, whole_number
from delta_sidecar.plan import ReadFiles, run_flow
from delta_sidecar.predicate.tree import written
from delta_sidecar.replay.bases.sidecar import ProofFiles, VersionProof, by_path
from delta_sidecar.replay.open import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.layout import PlannedLayout, lay_out
from delta_sidecar.sidecar.manifest import NO_ROW_GROUPS, Manifest
from delta_sidecar.sidecar.schema import FORMAT_VERSION
from delta_sidecar.store import RequestLog

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from delta_sidecar.build.publish import PieceRange
    from delta_sidecar.build.write import Pieces
    from delta_sidecar.plan import Executor
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.store import Store


DEFAULT_MEMORY = 1 << 30
LEAST_MEMORY = 128 << 20

_ROW_GROUPS_AHEAD = 4
_BUCKET_OPTION = tuple(option for option in SCAN_OPTIONS if option.name == "bucket_column")


Stage: TypeAlias = Literal["opening", "checking", "reading", "sorting", "writing", "publishing"]


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a build.

    Attributes:
        stage: What it is doing: `opening` the table, `checking` a sidecar that is there already, `reading` the live
            files, `sorting` them, `writing` the data file, `publishing` it.
        files: Files that this stage is through with; bytes while `checking`.
        total: How many there are; None where that is not known.
    """

    stage: Stage
    files: int = 0
    total: int | None = None


ProgressListener: TypeAlias = Callable[[BuildProgress], None]


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """The sidecar that a build made, or found to be there already.

    Attributes:
        table: The table's address, without secrets.
        version: The version of the table.
        file: Name of the data file in `_delta_log/_sidecars/`; of several the first.
        manifest: Name of the manifest.
        bytes: Size of the data file, or of all files but the manifest.
        index_bytes: Bytes of the index pieces.
        stats_bytes: Bytes of the statistics pieces.
        manifest_bytes: Size of the manifest.
        files: Live files of the table: the rows.
        row_groups: Row groups.
        sorted_by: The order, in words.
        time_column: Logical name of the time column; None for none.
        stats_columns: How many columns have statistics.
        stats_format: The layout that texts of statistics are rebuilt in.
        kept_texts: Files whose statistics had to be kept as text; None where that was not counted.
        seconds: How long it took.
        already_there: Whether a good sidecar was there, so that nothing was built.
    """

    table: str
    version: int
    file: str
    manifest: str
    bytes: int
    index_bytes: int
    stats_bytes: int
    manifest_bytes: int
    files: int
    row_groups: int
    sorted_by: str
    time_column: str | None
    stats_columns: int
    stats_format: str
    kept_texts: int | None
    seconds: float
    already_there: bool = False

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A build before the first file is read."""

    snapshot: Snapshot
    layout: PlannedLayout
    facts: Manifest  # the manifest, without what depends on the files
    executor: Executor


class SidecarBuilder(ABC):
    """One build of a table's sidecar."""

    def __init__(self, store: Store, options: BuildOptions, progress: ProgressListener | None, events: Events) -> None:
        self._requests = RequestLog()
        self._store = store.bind(self._requests)
        self._options = options
        self._progress = progress or (lambda _: None)
        self._events = events
        self._version: int | None = None
        self._began = time.monotonic()

    def run(self) -> BuildSummary:
        """Builds it, or finds it."""
        summary: BuildSummary | None = None
        failure: BaseException | None = None
        try:
            self._progress(BuildProgress("opening"))
            with closing(open_executor(self._store, row_groups_ahead=_ROW_GROUPS_AHEAD)) as executor:
                try:
                    summary = self._build(executor)
                finally:
                    self._requests.cancel()
        except BaseException as error:
            failure = error
            raise
        finally:
            self._emit_end(summary, failure)
        return summary

    @abstractmethod
    def _make(self, plan: BuildPlan) -> BuiltSidecar:
        """Makes the sidecar and puts it into the table."""

    @abstractmethod
    def _check_pieces(self, pieces: Iterator[PieceRange], total: int) -> None:
        """Reads all pieces of a sidecar, which have so many bytes in all; raises as `PieceRange.check` does."""

    def _publish(self, plan: BuildPlan, pieces: Pieces, stats_format: str) -> BuiltSidecar:
        """Puts a sidecar of one data file into the table."""
        facts = replace(plan.facts, num_files=pieces.num_rows, totals=pieces.totals, stats_format=stats_format)
        self._check_proof(facts, version_proof(self._store, plan.snapshot))
        folder, levels = pieces.path.parent, self._options.levels
        body = put_row_groups(self._store, folder, facts, pieces.groups, plan.layout, levels)
        manifest, size = publish_manifest(self._store, put_data(self._store, pieces, plan.layout, body))
        return BuiltSidecar(manifest, size, pieces.groups, pieces.kept_texts)

    def _build(self, executor: Executor) -> BuildSummary:
        options = self._options
        snapshot = self._open(executor)
        self._version = snapshot.version
        layout = lay_out(
            snapshot.columns,
            snapshot.metadata.configuration,
            bucket=self._bucket(snapshot),
            sort=options.sort,
            summaries=options.summaries,
        )
        proof = version_proof(self._store, snapshot)
        facts = manifest_facts(snapshot, layout, proof)
        self._check_proof(facts, proof)
        found = find_existing(self._store, facts, options.group_rows(layout), options.levels, self._check_pieces)
        if found is None:
            made = self._make(BuildPlan(snapshot, layout, facts, executor))
            return self._summary(layout, snapshot, made, already_there=False)
        if not set(proof.witnesses) <= set(found.manifest.witness):
            # A checkpoint was made since, which proves the version as well.
            manifest, written_bytes = publish_manifest(self._store, replace(found.manifest, witness=proof.witnesses))
            found = found._replace(manifest=manifest, manifest_bytes=written_bytes)
        return self._summary(layout, snapshot, found, already_there=True)

    def _open(self, executor: Executor) -> Snapshot:
        # The state comes from Delta's own log, never from another sidecar.
        opening = Opening(
            self._store.url,
            self._options.version,
            whole_tail=True,
            whole_base=True,
            sidecars=False,
            events=self._events,
        )
        return run_flow(open_snapshot(opening), executor)

    def _check_proof(self, facts: Manifest, proof: VersionProof) -> None:
        """Checks the facts by the log as it is now: the table may have been replaced or restored since."""
        try:
            proof.check(facts)
        except SidecarError as error:
            msg = f"{self._store.url}: no metadata sidecar of version {facts.version} would be trusted: {error}"
            raise BuildError(msg) from error

    def _bucket(self, snapshot: Snapshot) -> str:
        def ignored(name: str, reason: str) -> None:
            self._events(PropertyIgnored(table=self._store.url, property=name, reason=reason))

        call = {"bucket_column": self._options.bucket_column}
        return str(resolve(_BUCKET_OPTION, call, snapshot.metadata.configuration, ignored)["bucket_column"])

    def _emit_end(self, summary: BuildSummary | None, failure: BaseException | None) -> None:
        outcome: Literal["complete", "already_there", "stopped", "failed"] = "failed"
        if isinstance(failure, KeyboardInterrupt):
            outcome = "stopped"
        elif failure is None and summary is not None:
            outcome = "already_there" if summary.already_there else "complete"
        counts = self._requests.snapshot()
        self._events(
            BuildEnded(
                table=self._store.url,
                outcome=outcome,
                error=type(failure).__name__ if isinstance(failure, Exception) else None,
                milliseconds=round((time.monotonic() - self._began) * 1000, 3),
                version=self._version,
                files=summary.files if summary else 0,
                row_groups=summary.row_groups if summary else 0,
                sidecar_bytes=summary.bytes if summary else 0,
                requests=counts.requests,
                bytes=counts.bytes,
                trips=counts.trips,
            )
        )

    def _summary(
        self, layout: PlannedLayout, snapshot: Snapshot, found: BuiltSidecar, *, already_there: bool
    ) -> BuildSummary:
        manifest = found.manifest
        names = {physical: logical for logical, physical in snapshot.columns.physical_names.items()}
        time_column = layout.schema.time
        return BuildSummary(
            table=self._store.url,
            version=manifest.version,
            file=manifest.sidecar_file,
            manifest=manifest_name(manifest.version),
            bytes=sum(each.size for each in manifest.files),
            index_bytes=sum(group.byte_length for group in found.groups),
            stats_bytes=sum(group.stats_length for group in found.groups),
            manifest_bytes=found.manifest_bytes,
            files=manifest.num_files,
            row_groups=manifest.num_row_groups,
            sorted_by=layout.sorted_by,
            time_column=None if time_column is None else written(names[time_column]),
            stats_columns=len(layout.schema.statistics),
            stats_format=manifest.stats_format,
            kept_texts=found.kept_texts,
            seconds=round(time.monotonic() - self._began, 3),
            already_there=already_there,
        )


ROWS_PER_GROUP = 10_000
_MEMORY = size(1 << 44)
_MOST_CELLS = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The options of a build, as `build_sidecar` documents them; checked before anything is read.

    Raises:
        OptionError: A value is out of range.
    """

    version: int | None = None
    sort: str | None = None
    summaries: Sequence[str] = ()
    rows_per_group: int | None = None
    bucket_column: str | None = None
    memory_limit: int | str = DEFAULT_MEMORY
    temp_directory: str | os.PathLike[str] | None = None
    threads: int = 2
    levels: Levels = field(default_factory=Levels)

    def __post_init__(self) -> None:
        checks = {
            "version": whole_number(0, 2**63 - 1),
            "rows_per_group": whole_number(1, 1 << 20),
            "threads": whole_number(1, 256),
            "memory_limit": _MEMORY,
        }
        for name, read in checks.items():
            if getattr(self, name) is not None:
                checked(name, getattr(self, name), read)
        if isinstance(self.summaries, str):
            msg = f"summaries must be a list of names, not {self.summaries!r}"
            raise OptionError(msg)
        if self.memory < LEAST_MEMORY:
            msg = f"memory_limit must be at least {LEAST_MEMORY} bytes, not {self.memory_limit!r}"
            raise OptionError(msg)

    def group_rows(self, layout: PlannedLayout) -> int:
        """Rows in a row group of a sidecar."""
        columns = len(layout.schema.index) + len(layout.schema.statistics_schema)
        return self.rows_per_group or max(1, min(ROWS_PER_GROUP, _MOST_CELLS // columns))

    @property
    def memory(self) -> int:
        """The memory limit in bytes."""
        return checked("memory_limit", self.memory_limit, _MEMORY)


_CHECKSUM_BYTES = 4 << 20


def manifest_facts(snapshot: Snapshot, layout: PlannedLayout, proof: VersionProof) -> Manifest:
    """The manifest of a sidecar, without what depends on the files."""
    schema, order = layout.schema, layout.order
    return Manifest(
        format_version=FORMAT_VERSION,
        schema_hash=schema.schema_hash,
        version=snapshot.version,
        sidecar_file=sidecar_name(snapshot.version),
        num_files=0,
        num_row_groups=0,
        commit=proof.commit,
        witness=proof.witnesses,
        protocol=snapshot.protocol.to_action(),
        metadata=snapshot.metadata.to_action(),
        bucket_column=schema.bucket,
        time_column=schema.time,
        sort=order.sort,
        summaries=tuple(order.summaries),
        statistics=tuple(schema.statistics),
        stats_format="",
        listed_row_groups=NO_ROW_GROUPS,
    )


def version_proof(store: Store, snapshot: Snapshot) -> VersionProof:
    """The proof of the table's version as it is now: its commit, checkpoints and checksum file, read anew."""
    files = ProofFiles.of(snapshot.choice.segment, snapshot.version)
    plan = ReadFiles((), heads=files.heads, tails=files.tails)
    with closing(open_executor(store)) as executor, closing(executor.execute(plan)) as read:
        return files.proof(by_path(read))


def expected_files(store: Store, snapshot: Snapshot) -> int | None:
    """The number of live files, where a checksum file has it."""
    if snapshot.counted is not None and snapshot.counted[0] == snapshot.version:
        return snapshot.counted[1]
    if snapshot.version not in snapshot.choice.segment.checksums:
        return None
    try:
        checksum = read_checksum(bytes(store.get(checksum_path(snapshot.version), max_bytes=_CHECKSUM_BYTES).data))
    except ObjectNotFoundError:
        return None
    return None if checksum is None else checksum.num_files

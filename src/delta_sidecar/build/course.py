"""The course of a build, whoever makes the rows: open the table, lay out, look for what is there, make, tell.

A build is a subclass that makes the sidecar: on this machine, or on a cluster.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from delta_sidecar.build.existing import Existing, find_existing
from delta_sidecar.build.layout import PlannedLayout, lay_out
from delta_sidecar.build.manifest_facts import manifest_facts, version_proof
from delta_sidecar.build.summary import BuildProgress, BuildSummary, ProgressListener
from delta_sidecar.errors import BuildError, SidecarError
from delta_sidecar.events import BuildEnded, Events, PropertyIgnored
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.options import SCAN_OPTIONS, resolve
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.predicate.names import written
from delta_sidecar.replay.opening import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.names import manifest_name
from delta_sidecar.store import RequestLog

if TYPE_CHECKING:
    from delta_sidecar.build.existing import PieceCheck
    from delta_sidecar.build.publishing import Published
    from delta_sidecar.build.settings import BuildOptions
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.replay.witnesses import VersionProof
    from delta_sidecar.sidecar.manifest import Manifest
    from delta_sidecar.store import Store

_ROW_GROUPS_AHEAD = 4
_BUCKET_OPTION = tuple(option for option in SCAN_OPTIONS if option.name == "bucket_column")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known before the first file is looked at.

    Attributes:
        snapshot: The table.
        layout: The layout of its sidecar.
        facts: The manifest, but for what only the files tell.
        executor: Reads the log on this machine.
    """

    snapshot: Snapshot
    layout: PlannedLayout
    facts: Manifest
    executor: LocalExecutor


@dataclass(frozen=True, slots=True)
class Made:
    """A sidecar that a build has made.

    Attributes:
        published: What is in the table now.
        index_bytes: Bytes of its index pieces.
        stats_bytes: Bytes of its statistics pieces.
        kept_texts: Files whose statistics had to be kept as text.
    """

    published: Published
    index_bytes: int
    stats_bytes: int
    kept_texts: int


class Course(ABC):
    """One build of a table's sidecar.

    Args:
        store: The table's store.
        options: How it is built.
        progress: Is told how far it is; None for nobody.
        events: Is told what happens.
    """

    def __init__(self, store: Store, options: BuildOptions, progress: ProgressListener | None, events: Events) -> None:
        self._requests = RequestLog()
        self._store = store.bind(self._requests)
        self._options = options
        self._progress = progress or _nobody
        self._events = events
        self._version: int | None = None
        self._began = time.monotonic()

    def run(self) -> BuildSummary:
        """Builds it, or finds it."""
        summary = None
        outcome: Literal["complete", "already_there", "stopped", "failed"] = "failed"
        error = None
        try:
            summary = self._run()
            outcome = "already_there" if summary.already_there else "complete"
        except Exception as failure:
            error = type(failure).__name__
            raise
        except KeyboardInterrupt:
            outcome = "stopped"
            raise
        finally:
            self._tell_end(outcome, error, summary)
        return summary

    @abstractmethod
    def _make(self, plan: Plan) -> Made:
        """Makes the sidecar and puts it into the table."""

    @abstractmethod
    def _piece_check(self) -> PieceCheck:
        """What reads the pieces of a sidecar that is there, to see whether it is whole."""

    def _run(self) -> BuildSummary:
        self._progress(BuildProgress("opening"))
        with closing(LocalExecutor(self._store, row_groups_ahead=_ROW_GROUPS_AHEAD)) as executor:
            try:
                return self._built(executor)
            finally:
                self._requests.cancel()

    def _built(self, executor: LocalExecutor) -> BuildSummary:
        options = self._options
        snapshot = self._open(executor)
        self._version = snapshot.version
        layout = lay_out(snapshot, bucket=self._bucket(snapshot), sort=options.sort, summaries=options.summaries)
        proof = version_proof(self._store, snapshot)
        facts = manifest_facts(snapshot, layout, proof)
        self._check_proof(facts, proof)
        there = find_existing(self._store, facts, options.group_rows(layout), options.levels, self._piece_check())
        if there is not None:
            there.renew(self._store, proof)
            return self._summary(layout, snapshot, there)
        return self._summary(layout, snapshot, self._make(Plan(snapshot, layout, facts, executor)))

    def _open(self, executor: LocalExecutor) -> Snapshot:
        # The state comes from Delta's own log, never from another sidecar.
        opening = Opening(
            self._store.url,
            self._options.version,
            whole_tail=True,
            whole_base=True,
            sidecars=False,
            events=self._events,
        )
        return StateMachineIterator(open_snapshot(opening), executor).run_to_terminal()

    def _check_unchanged(self, plan: Plan) -> None:
        """Looks once more before anything is published: the table may have been replaced or restored meanwhile.

        Raises:
            BuildError: It was.
        """
        self._check_proof(plan.facts, version_proof(self._store, plan.snapshot))

    def _check_proof(self, facts: Manifest, proof: VersionProof) -> None:
        try:
            proof.check(facts)
        except SidecarError as error:
            msg = f"{self._store.url}: no metadata sidecar of version {facts.version} would be trusted: {error}"
            raise BuildError(msg) from error

    def _bucket(self, snapshot: Snapshot) -> str:
        given = {"bucket_column": self._options.bucket_column}
        values = resolve(_BUCKET_OPTION, given, snapshot.metadata.configuration, self._ignored)
        name: str = values["bucket_column"]
        return name

    def _checked(self, done: int, total: int) -> None:
        self._progress(BuildProgress("checking", done, total))

    def _tell_end(
        self,
        outcome: Literal["complete", "already_there", "stopped", "failed"],
        error: str | None,
        summary: BuildSummary | None,
    ) -> None:
        counts = self._requests.snapshot()
        self._events(
            BuildEnded(
                table=self._store.url,
                outcome=outcome,
                error=error,
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

    def _ignored(self, name: str, reason: str) -> None:
        self._events(PropertyIgnored(table=self._store.url, property=name, reason=reason))

    def _summary(self, layout: PlannedLayout, snapshot: Snapshot, found: Existing | Made) -> BuildSummary:
        is_there = isinstance(found, Existing)
        told = found if isinstance(found, Existing) else found.published
        manifest = told.manifest
        names = {physical: logical for logical, physical in snapshot.columns.physical_names.items()}
        time_column = layout.schema.time
        return BuildSummary(
            table=self._store.url,
            version=manifest.version,
            file=manifest.sidecar_file.name,
            manifest=manifest_name(manifest.version),
            bytes=sum(each.size for each in manifest.files),
            index_bytes=found.index_bytes,
            stats_bytes=found.stats_bytes,
            manifest_bytes=told.manifest_bytes,
            files=manifest.num_files,
            row_groups=manifest.num_row_groups,
            sorted_by=layout.sorted_by,
            time_column=None if time_column is None else written(names[time_column]),
            stats_columns=len(layout.schema.statistics),
            stats_format=manifest.stats_format,
            kept_texts=None if isinstance(found, Existing) else found.kept_texts,
            seconds=round(time.monotonic() - self._began, 3),
            already_there=is_there,
        )


def _nobody(_: BuildProgress) -> None:
    return

"""The metadata sidecars of a log: the one that scans end on, those that cannot be used, and leftovers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from delta_sidecar.health.report import SidecarReport, SidecarsReport
from delta_sidecar.predicate import tree
from delta_sidecar.replay.bases.base import Torn
from delta_sidecar.replay.bases.choice import passed_over
from delta_sidecar.replay.bases.sidecar import SidecarBase
from delta_sidecar.sidecar.layout import collected_columns
from delta_sidecar.sidecar.names import TEMPORARY_NAME, SidecarFileKind, manifest_name, parse_sidecar_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from delta_sidecar.events import Events
    from delta_sidecar.health.report import UnusableSidecar
    from delta_sidecar.log.schema import ColumnPath
    from delta_sidecar.log.segment import ListedFile
    from delta_sidecar.plan import Flow
    from delta_sidecar.replay.bases.choice import BaseChoice
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.sidecar.layout import SidecarLayout
    from delta_sidecar.sidecar.manifest import Manifest, SidecarFile

_MOST_VERSIONS = 20
# The defaults of a clean-up.
_KEPT = 2
_RETENTION = 7 * 24 * 3600 * 1000


def trusted_sidecar(table: str, choice: BaseChoice, events: Events) -> Flow[BaseChoice]:
    """The bases from the one down that a scan would end on: a metadata sidecar only if its manifest holds."""
    while choice.bases and isinstance(choice.bases[0], SidecarBase) and choice.bases[0].layout is None:
        try:
            return choice.learned((yield from choice.bases[0].trust(with_table=False)))
        except Torn as torn:
            choice = yield from passed_over(table, choice, torn.reason, events)
    return choice


def sidecars_of(snapshot: Snapshot, bucket: str, unusable: Sequence[UnusableSidecar]) -> SidecarsReport:
    """The metadata sidecars of a log; `unusable` are those that proved to be when the table was opened."""
    listed, choice = snapshot.choice.segment.sidecars, snapshot.choice
    ours = {name: version for name in listed if (version := _version(name)) is not None}
    there = sorted({ours[name] for name in ours if _is_first(name) and ours[name] <= snapshot.version}, reverse=True)
    base = choice.bases[0] if choice.bases else None
    layout = base.layout if isinstance(base, SidecarBase) else None
    report = None if base is None or layout is None else _report(base.name, base.tier, layout, snapshot, bucket)
    left = _leftovers(listed, ours, None if layout is None else layout.manifest)
    return SidecarsReport(
        base=report,
        reason=_reason(report, unusable, is_there=bool(there), is_enabled=choice.sidecars),
        versions=tuple(there[:_MOST_VERSIONS]),
        files=len(ours),
        bytes=sum(listed[name].size for name in ours),
        unusable=tuple(unusable),
        leftover_files=len(left),
        leftover_bytes=sum(file.size for file in left),
    )


def _report(name: str, tier: int, layout: SidecarLayout, snapshot: Snapshot, bucket: str) -> SidecarReport:
    manifest, columns = layout.manifest, snapshot.columns
    shown = {physical: tree.written(path) for path, physical in columns.physical_names.items()}
    collected = collected_columns(columns, snapshot.metadata.configuration)
    has = set(manifest.statistics)
    missing = [path for path, kind in collected.items() if kind is not None and path not in has]
    buckets = [column for column in columns.partition_columns if column.casefold() == bucket.casefold()]
    lacks_bucket = bool(buckets) and (columns.physical_names[(buckets[0],)] != (manifest.bucket_column,))
    return SidecarReport(
        name=name,
        version=manifest.version,
        tier=tier,
        files=manifest.num_files,
        row_groups=manifest.num_row_groups,
        data_files=len(_files(manifest)),
        bytes=sum(file.size for file in _files(manifest)),
        commits=snapshot.version - manifest.version,
        sorted_by=tuple(_shown(column.column, shown) for column in manifest.sort),
        time_column=None if manifest.time_column is None else _shown(manifest.time_column, shown),
        statistics=len(has),
        missing_columns=tuple(_shown(path, shown) for path in missing),
        lacks_bucket=lacks_bucket,
    )


def _reason(
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
    used = set() if manifest is None else {manifest_name(manifest.version), *(file.name for file in _files(manifest))}
    left = []
    for name, version in ours.items():
        is_loose = manifest is not None and version == manifest.version and name not in used
        is_needed = version in newest and not is_loose and not TEMPORARY_NAME.fullmatch(name)
        if name not in used and not is_needed and listed[name].last_modified < before:
            left.append(listed[name])
    return left


def _files(manifest: Manifest) -> list[SidecarFile]:
    """The files of a metadata sidecar without its manifest."""
    return [*manifest.files, *([] if manifest.segments_file is None else [manifest.segments_file])]


def _version(name: str) -> int | None:
    """The version that a file of a metadata sidecar belongs to; None for files of others."""
    parsed = parse_sidecar_name(name)
    if parsed is not None:
        return parsed.version
    temporary = TEMPORARY_NAME.fullmatch(name)
    return None if temporary is None else int(temporary["version"])


def _is_first(name: str) -> bool:
    """Whether a metadata sidecar can be read beginning with this file."""
    parsed = parse_sidecar_name(name)
    return parsed is not None and parsed.kind in (SidecarFileKind.MANIFEST, SidecarFileKind.DATA)


def _shown(path: ColumnPath, shown: Mapping[ColumnPath, str]) -> str:
    return shown.get(path) or tree.written(path)

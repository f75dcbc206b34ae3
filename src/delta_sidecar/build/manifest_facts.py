"""What is known of a sidecar's manifest, and of its size, before any file is read."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.hints import read_checksum
from delta_sidecar.log.names import checksum_path
from delta_sidecar.plan import ReadFiles
from delta_sidecar.replay.witnesses import ProofFiles, VersionProof, by_path
from delta_sidecar.sidecar.manifest import Manifest, SidecarFile, SortColumn
from delta_sidecar.sidecar.names import sidecar_name
from delta_sidecar.sidecar.schema import type_name

if TYPE_CHECKING:
    from delta_sidecar.build.layout import PlannedLayout
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.store import Store

_CHECKSUM_BYTES = 4 << 20


def manifest_facts(snapshot: Snapshot, layout: PlannedLayout, proof: VersionProof) -> Manifest:
    """The manifest of a sidecar, but for what only the files tell."""
    schema, order = layout.schema, layout.order
    return Manifest(
        version=snapshot.version,
        files=(SidecarFile(sidecar_name(snapshot.version), 0),),
        num_files=0,
        schema_hash=schema.schema_hash,
        commit=proof.commit,
        witness=proof.witnesses,
        protocol=snapshot.protocol.to_action(),
        metadata=snapshot.metadata.to_action(),
        bucket_column=schema.bucket,
        time_column=schema.time,
        sort=tuple(SortColumn(value.kind, value.path, type_name(value.type)) for value in order.sort),
        summaries=tuple(order.summaries),
        statistics=tuple(schema.statistics),
        stats_format="",
    )


def version_proof(store: Store, snapshot: Snapshot) -> VersionProof:
    """What proves the table's version now: its commit, its checkpoints and its checksum file, as far as there are any.

    Nothing that was read before counts.
    """
    files = ProofFiles.of(snapshot.choice.segment, snapshot.version)
    plan = ReadFiles((), heads=files.heads, tails=files.tails)
    with closing(LocalExecutor(store)) as executor, closing(executor.execute(plan)) as read:
        return files.proof(by_path(read))


def expected_files(store: Store, snapshot: Snapshot) -> int | None:
    """How many live files there are, where a checksum file tells."""
    if snapshot.version not in snapshot.choice.segment.checksums:
        return None
    try:
        checksum = read_checksum(bytes(store.get(checksum_path(snapshot.version), max_bytes=_CHECKSUM_BYTES).data))
    except ObjectNotFoundError:
        return None
    return None if checksum is None else checksum.num_files

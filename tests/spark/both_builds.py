"""A table's sidecar built on Spark and built locally, read back with nothing but the manifest and pyarrow."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs
from tests.builder.meaning import meaning

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar import build_sidecar as build_locally
from delta_sidecar._arrow import xxh3_128
from delta_sidecar.events import Event, ScanEnded
from delta_sidecar.log.names import SIDECAR_FOLDER, manifest_name, parse_sidecar_name
from delta_sidecar.sidecar.manifest import FOOTER_KEY, decode_manifest, decode_segment, with_row_groups
from delta_sidecar.spark.build import build_sidecar
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import Lake

    from delta_sidecar import BuildSummary
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest, SidecarFile
    from delta_sidecar.store import Store

LOCAL = {"memory_limit": "128MB", "threads": 1}


@dataclass(frozen=True)
class Sidecar:
    """A sidecar, read back whole.

    Attributes:
        manifest: Its manifest.
        groups: Its row groups in order.
        rows: Its rows in order, all columns.
        files: The files that a scan finds with it, by path.
    """

    manifest: Manifest
    groups: list[RowGroup]
    rows: pa.Table
    files: pa.Table


@dataclass(frozen=True)
class Table:
    """Where a table is."""

    url: str
    options: dict[str, str]

    @property
    def store(self) -> Store:
        return open_store(self.url, self.options)

    def sidecar_files(self) -> dict[str, int]:
        """Names and sizes of what is in the folder of sidecars."""
        listed = (file for page in self.store.list(SIDECAR_FOLDER) for file in page)
        return {file.path.removeprefix(SIDECAR_FOLDER): file.size for file in listed}

    def clear(self) -> None:
        """Removes all metadata sidecars."""
        for name in self.sidecar_files():
            if parse_sidecar_name(name) is not None:
                self.store.delete(SIDECAR_FOLDER + name)

    def scanned(self, *, sidecar: bool, version: int | None = None, tier: int | None = None) -> pa.Table:
        """The files of a version, by path. With sidecars it is asserted that one is used, or which tier is."""
        config = LazyScanConfig(version=version, sidecar_enabled=sidecar)
        told: list[Event] = []
        found = pa.table(LazyDeltaScanner(self.url, config, store=self.store, listeners=[told.append]).scan_batches())
        tiers = [event.sidecar_tier for event in told if isinstance(event, ScanEnded)]
        assert tiers == [tier or (1 if sidecar else 3)]
        keys = [(row["raw_path"], repr(row["deletion_vector"])) for row in found.to_pylist()]
        order = pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64())
        return found.take(order).combine_chunks()

    def read(self, version: int) -> Sidecar:
        """Reads a sidecar back, and asserts that each part is an ordinary Parquet file of ours."""
        store = self.store
        manifest = decode_manifest(bytes(store.get(SIDECAR_FOLDER + manifest_name(version)).data), version=version)
        groups: list[RowGroup] = []
        for segment in manifest.segments:
            path, start = SIDECAR_FOLDER + manifest.files[segment.file].name, segment.byte_offset
            data = bytes(store.get_range(path, start, start + segment.byte_length))
            groups.extend(decode_segment(data, segment, manifest))
        groups.extend(manifest.row_groups)
        files = data_files(manifest)
        wholes = [bytes(store.get(SIDECAR_FOLDER + each.name).data) for each in files]
        assert [len(whole) for whole in wholes] == [each.size for each in files]
        batches = [_batch(wholes[group.file], group) for group in groups]
        for number, whole in enumerate(wholes):
            ordinary = pq.ParquetFile(io.BytesIO(whole))
            assert FOOTER_KEY.encode() in ordinary.metadata.metadata
            mine = [batch for batch, group in zip(batches, groups, strict=True) if group.file == number]
            expected = pa.concat_tables(mine) if mine else ordinary.schema_arrow.empty_table()
            # NaN is not equal to itself.
            assert repr(ordinary.read().to_pylist()) == repr(expected.to_pylist())
        schema = pq.read_schema(io.BytesIO(wholes[0]))
        rows = pa.concat_tables([schema.empty_table(), *batches])
        return Sidecar(manifest, groups, rows, self.scanned(sidecar=True, version=version))


def _batch(whole: bytes, group: RowGroup) -> pa.Table:
    pieces = []
    for offset, length, digest in (
        (group.byte_offset, group.byte_length, group.digest),
        (group.stats_offset, group.stats_length, group.stats_digest),
    ):
        piece = whole[offset : offset + length]
        assert xxh3_128(piece) == digest
        pieces.append(pq.read_table(io.BytesIO(piece)))
    columns = [*pieces[0].columns, *pieces[1].columns]
    found = pa.Table.from_arrays(columns, schema=pa.schema([*pieces[0].schema, *pieces[1].schema]))
    assert found.num_rows == group.num_rows
    return found


def table_in(lake: Lake, name: str) -> Table:
    """A table of a lake."""
    return Table(lake.url(name), lake.options)


def both(
    spark: SparkSession,
    table: Table,
    *,
    rows_per_part: int | None = None,
    **options: Any,  # noqa: ANN401 - any option
) -> tuple[BuildSummary, Sidecar, Sidecar]:
    """Builds on Spark, then again locally, and asserts that both say the same; the local one stays.

    Returns:
        What the build on Spark told, and both sidecars.
    """
    table.clear()
    given = {"storage_options": table.options, **options}
    summary = build_sidecar(spark, table.url, rows_per_part=rows_per_part, **given)
    distributed = table.read(summary.version)
    assert _told(summary, distributed) == summary
    assert build_locally(table.url, **given, **LOCAL).already_there
    table.clear()
    locally = build_locally(table.url, **given, **LOCAL)
    assert not locally.already_there
    local = table.read(locally.version)
    assert repr(distributed.rows.to_pylist()) == repr(local.rows.to_pylist())
    assert distributed.rows.schema == local.rows.schema
    assert _without_places(distributed.manifest) == _without_places(local.manifest)
    assert repr(distributed.files.to_pylist()) == repr(local.files.to_pylist())
    assert _said(local.files) == _said(table.scanned(sidecar=False, version=summary.version))
    return summary, distributed, local


def _told(summary: BuildSummary, found: Sidecar) -> BuildSummary:
    """What a summary has to say of a sidecar."""
    return replace(
        summary,
        file=found.manifest.sidecar_file,
        bytes=sum(each.size for each in found.manifest.files),
        index_bytes=sum(group.byte_length for group in found.groups),
        stats_bytes=sum(group.stats_length for group in found.groups),
        files=found.rows.num_rows,
        row_groups=len(found.groups),
        kept_texts=found.rows.num_rows - found.rows.column("stats_json").null_count,
        already_there=False,
    )


def _said(files: pa.Table) -> list[str]:
    """The files with everything in them, statistics by what they say."""
    return [repr(row | {"stats": _sorted(meaning(row["stats"]))}) for row in files.to_pylist()]


def _sorted(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: _sorted(value[name]) for name in sorted(value)}


def _without_places(manifest: Manifest) -> Manifest:
    """A manifest without what depends on how rows are spread over files."""
    bare = structs.replace(manifest, sidecar_file="", sidecar_size_bytes=0, other_files=())
    return with_row_groups(bare, ())


def data_files(manifest: Manifest) -> list[SidecarFile]:
    """The files of a metadata sidecar without that of its segments."""
    return [each for each in manifest.files if each.name.endswith(".parquet")]

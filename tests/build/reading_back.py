"""A sidecar read back with nothing but its manifest and pyarrow, and what its rows say."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.builder.meaning import meaning

from delta_sidecar import LazyDeltaScanner, LazyScanConfig
from delta_sidecar._arrow import xxh3_128
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.partition_values import lookup
from delta_sidecar.log.schema import read_schema
from delta_sidecar.log.stats import parse_statistics
from delta_sidecar.sidecar.manifest import decode_manifest, decode_segment
from delta_sidecar.sidecar.order import SidecarOrder, typed, vector_ids, without_nan
from delta_sidecar.sidecar.rows import stats_texts
from delta_sidecar.sidecar.schema import SidecarSchema, column_name, stats_columns

if TYPE_CHECKING:
    from pathlib import Path

    from delta_sidecar.log.schema import ColumnPath, TableSchema
    from delta_sidecar.sidecar.groups import RowGroup
    from delta_sidecar.sidecar.manifest import Manifest


@dataclass(frozen=True)
class ReadBack:
    """A sidecar, read back whole."""

    folder: Path
    manifest: Manifest
    groups: list[RowGroup]
    batches: list[pa.RecordBatch]

    @property
    def data(self) -> Path:
        return self.folder / self.manifest.sidecar_file

    @property
    def rows(self) -> pa.RecordBatch:
        """All rows in order."""
        fields = [*self.schema.index, *self.schema.statistics_schema]
        table = pa.Table.from_batches(self.batches, pa.schema(fields)).combine_chunks()
        found = table.to_batches()
        return found[0] if found else pa.RecordBatch.from_pylist([], pa.schema(fields))

    @property
    def columns(self) -> TableSchema:
        metadata = Metadata.from_action(dict(self.manifest.metadata), "manifest")
        return read_schema(metadata, Protocol.from_action(dict(self.manifest.protocol), "manifest"), "table")

    @property
    def schema(self) -> SidecarSchema:
        columns, manifest = self.columns, self.manifest
        physical = dict(zip(columns.logical.names, columns.physical.names, strict=True))
        kinds = stats_columns(
            columns.physical,
            manifest.metadata["configuration"],
            [physical[name] for name in columns.partition_columns],
            logical=columns.logical,
        )
        assert tuple(kinds) == manifest.statistics
        others = tuple(name for name in columns.physical_partition_columns if name != manifest.bucket_column)
        return SidecarSchema(manifest.bucket_column, others, manifest.time_column, kinds)

    @property
    def order(self) -> SidecarOrder:
        return SidecarOrder(
            self.manifest.sort, {path: self.schema.statistics[path] for path in self.manifest.summaries}
        )

    @property
    def logical(self) -> dict[str, str]:
        columns = self.columns
        return dict(zip(columns.physical_partition_columns, columns.partition_columns, strict=True))

    def keys(self) -> list[tuple[Any, ...]]:
        """Keys of all rows, as values that Python can compare."""
        return comparable(self.order.of_rows(self.rows, self.schema))

    def keys_of(self, files: pa.RecordBatch) -> list[tuple[Any, ...]]:
        """Keys of files in the columns of `FILE_SCHEMA`, in the order of the files, without a sidecar's rows."""
        order, texts = self.order, files.column("stats")
        found = parse_statistics(texts, dict(order.summaries)).columns

        def bound(path: ColumnPath, side: str) -> pa.Array:
            column = getattr(found[path], side)
            return pa.nulls(len(texts), order.summaries[path]) if column is None else without_nan(column)

        values = [
            bound(value.column, "lower")
            if value.kind == "lower_bound"
            else typed(lookup(files.column("partition_values"), self.logical[value.column[0]]).texts, value.arrow_type)
            for value in order.sort
        ]
        bounds = [bound(path, side).is_valid().to_pylist() for path in order.summaries for side in ("lower", "upper")]
        complete = pa.array([all(each[row] for each in bounds) for row in range(len(texts))], pa.bool_())
        vectors = vector_ids(files.column("deletion_vector"))
        return comparable([complete, *values, files.column("raw_path"), vectors])

    def files(self) -> dict[tuple[str, Any], dict[str, Any]]:
        """What the rows say of each file, by path and deletion vector; statistics by what they say."""
        rows = self.rows
        listed = rows.to_pylist()
        texts = stats_texts(rows, self.schema, self.manifest.stats_format).to_pylist()
        bucket = self.schema.bucket_column
        found = {}
        for row, text in zip(listed, texts, strict=True):
            vector = {name.removeprefix("dv."): row[name] for name in row if name.startswith("dv.")}
            if vector["storageType"] is None:
                vector = None
            values = {}
            for physical, logical in self.logical.items():
                name = bucket if physical == self.schema.bucket else f"partition.{column_name((physical,))}"
                values[logical] = row[name]
            key = (row["path"], json.dumps(vector, sort_keys=True))
            assert key not in found
            found[key] = {
                "size": row["size"],
                "modification_time": row["modification_time"],
                "partition_values": values,
                "stats": meaning(text),
                "tags": row["tags"],
                "base_row_id": row["base_row_id"],
                "default_row_commit_version": row["default_row_commit_version"],
                "clustering_provider": row["clustering_provider"],
            }
        return found


def read_back(root: Path, version: int) -> ReadBack:
    """Reads a sidecar by its manifest; every digest has to hold."""
    folder = root / "_delta_log" / "_sidecars"
    manifest = decode_manifest((folder / f"v{version}.manifest.json").read_bytes(), version=version)
    groups: list[RowGroup] = []
    for segment in manifest.segments:
        data = (folder / manifest.files[segment.file].name).read_bytes()
        part = data[segment.byte_offset : segment.byte_offset + segment.byte_length]
        groups += decode_segment(part, segment, manifest)
    groups += manifest.row_groups
    batches = []
    whole = (folder / manifest.sidecar_file).read_bytes()
    assert len(whole) == manifest.sidecar_size_bytes
    for group in groups:
        pieces = []
        for offset, length, digest in (
            (group.byte_offset, group.byte_length, group.digest),
            (group.stats_offset, group.stats_length, group.stats_digest),
        ):
            piece = whole[offset : offset + length]
            assert xxh3_128(piece) == digest
            pieces.append(pq.read_table(io.BytesIO(piece)))
        columns = [*pieces[0].columns, *pieces[1].columns]
        fields = [*pieces[0].schema, *pieces[1].schema]
        (batch,) = pa.Table.from_arrays(columns, schema=pa.schema(fields)).combine_chunks().to_batches()
        assert batch.num_rows == group.num_rows
        batches.append(batch)
    found = ReadBack(folder, manifest, groups, batches)
    as_parquet = pq.read_table(io.BytesIO(whole))
    # NaN is not equal to itself.
    assert repr(as_parquet.to_pylist()) == repr(found.rows.to_pylist())
    return found


def scanned(root: Path, version: int | None = None) -> pa.Table:
    """The live files by a scan of Delta's own log."""
    config = LazyScanConfig(version=version, sidecar_enabled=False)
    return pa.table(LazyDeltaScanner(root, config).scan_batches())


def scanned_files(root: Path, version: int | None = None) -> dict[tuple[str, Any], dict[str, Any]]:
    """The same, in the form of `ReadBack.files`."""
    found = {}
    for row in scanned(root, version).to_pylist():
        key = (row.pop("raw_path"), json.dumps(row.pop("deletion_vector"), sort_keys=True))
        row.pop("path")
        row["partition_values"] = dict(row["partition_values"])
        found[key] = row | {"stats": meaning(row["stats"])}
    return found


def comparable(columns: list[pa.Array]) -> list[tuple[Any, ...]]:
    """Keys as tuples that Python orders as a sidecar does: null first, texts by their bytes."""
    return list(zip(*[[_comparable(value) for value in column.to_pylist()] for column in columns], strict=True))


def _comparable(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - a value of any column type
    if value is None:
        return (0,)
    return (1, value.encode() if isinstance(value, str) else value)

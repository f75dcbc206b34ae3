"""The log of a table of a hundred million files: its metadata sidecar is made directly, and no checkpoint.

A commit, the sidecar at its version, and the commits after it: a log whose older part has been cleaned up. Rows are
made in the sidecar's order, so that nothing is sorted on disk, and written by the library's own writers, in bounded
memory. They are the rows that a build makes of the same log with a checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from delta_sidecar._arrow import xxh3_128
from delta_sidecar.build.live_rows import RowMaker
from delta_sidecar.build.publish import Levels, publish_manifest, put_data, put_row_groups
from delta_sidecar.build.write import temporary_folder, write_pieces
from delta_sidecar.errors import OptionError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.names import LOG_FOLDER, commit_path, sidecar_name
from delta_sidecar.log.schema import read_schema
from delta_sidecar.log.stats_text import DEFAULT_STATS_FORMAT
from delta_sidecar.sidecar.layout import lay_out
from delta_sidecar.sidecar.manifest import NO_ROW_GROUPS, CommitMark, Manifest
from delta_sidecar.sidecar.schema import FORMAT_VERSION, column_name
from delta_sidecar.store import open_store
from delta_sidecar.synth import TelemetryLog
from delta_sidecar.synth.file_series import stats_struct
from delta_sidecar.synth.fixed_text import as_strings
from delta_sidecar.synth.log_writer import LogWriter
from delta_sidecar.synth.schemas import BUCKET_COLUMN

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from delta_sidecar.sidecar.layout import PlannedLayout
    from delta_sidecar.synth import SynthSummary
    from delta_sidecar.synth.file_series import FileSeries

_ROWS_PER_GROUP = 10_000
_HEAD_BYTES = 4096
_NONE = np.zeros(0, dtype=np.int64)


class GeneratedLog(TelemetryLog):
    """The log of a telemetry table that has a metadata sidecar in the place of a checkpoint."""

    def write(self, path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> SynthSummary:
        """Writes the log below a local directory. Arguments as for `TelemetryLog.write`.

        Raises:
            OptionError: The directory has a Delta log, or the log has what is not generated.
        """
        folder = Path(path) / LOG_FOLDER
        if folder.exists() or self.deletion_vectors or self.checkpoint != "v1":
            msg = f"{path}: no such log can be generated, or there is one already"
            raise OptionError(msg)
        folder.mkdir(parents=True)
        return _Writer(self, Path(path), progress).write()


class _Writer(LogWriter):
    def _write_base(self, version: int) -> int:
        log = self._log
        timestamp = self._timestamp(version, range(log.files))
        added = range(max(0, log.files - log.adds_per_commit), log.files)
        first = [{"protocol": self._protocol}, {"metaData": self._metadata}]
        self._write_commit(version, timestamp, first, added, _NONE, lambda _: None)
        self._write_sidecar(version)
        self._files = log.files
        self._write_checksum(version, timestamp)
        return 0

    def _write_sidecar(self, version: int) -> None:
        name = commit_path(version)
        protocol, metadata = Protocol.from_action(self._protocol, name), Metadata.from_action(self._metadata, name)
        table = read_schema(metadata, protocol, name)
        layout = lay_out(table, metadata.configuration, bucket=BUCKET_COLUMN)
        maker = RowMaker(layout, table.instants, DEFAULT_STATS_FORMAT)
        store = open_store(self._table)
        with temporary_folder("generated-", self._table) as folder:
            pieces = write_pieces(self._groups(layout, maker.schema), maker, layout, folder)
            facts = msgspec.structs.replace(
                self._facts(version, layout, protocol, metadata), num_files=pieces.num_rows, totals=pieces.totals
            )
            body = put_row_groups(store, folder, facts, pieces.groups, layout, Levels())
            publish_manifest(store, put_data(store, pieces, layout, body))

    def _groups(self, layout: PlannedLayout, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of the sidecar in its order, a row group at a time: by hour, which paths begin with, and path."""
        hours = max(1, _ROWS_PER_GROUP // self._series.files_per_hour)
        held: list[pa.RecordBatch] = []
        rows = 0
        for numbers in self._hours(hours):
            batch = rows_of(self._series, numbers, layout, schema)
            held.append(batch)
            rows += len(numbers)
            self._table_bytes += int(self._series.block(numbers).sizes.sum())
            self._report(len(numbers))
            while rows >= _ROWS_PER_GROUP:
                joined = pa.Table.from_batches(held).combine_chunks().to_batches()[0]
                yield joined.slice(0, _ROWS_PER_GROUP)
                held, rows = [joined.slice(_ROWS_PER_GROUP)], rows - _ROWS_PER_GROUP
        if rows:
            yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]

    def _hours(self, together: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
        """The numbers of files in the order of time, whole hours at once."""
        series, files = self._series, self._log.files
        for hour in range(series.start_hour, series.start_hour + series.hours, together):
            ranges = [series.hour_range(hour + offset) for offset in range(together)]
            numbers = np.concatenate([np.arange(each.start, min(each.stop, files), dtype=np.int64) for each in ranges])
            if len(numbers):
                yield numbers

    def _facts(self, version: int, layout: PlannedLayout, protocol: Protocol, metadata: Metadata) -> Manifest:
        data = (self._table / commit_path(version)).read_bytes()
        schema, order = layout.schema, layout.order
        return Manifest(
            format_version=FORMAT_VERSION,
            schema_hash=schema.schema_hash,
            version=version,
            sidecar_file=sidecar_name(version),
            num_files=0,
            num_row_groups=0,
            commit=CommitMark(len(data), xxh3_128(data[:_HEAD_BYTES])),
            protocol=protocol.to_action(),
            metadata=metadata.to_action(),
            bucket_column=schema.bucket,
            time_column=schema.time,
            sort=order.sort,
            summaries=tuple(order.summaries),
            statistics=tuple(schema.statistics),
            stats_format=DEFAULT_STATS_FORMAT,
            listed_row_groups=NO_ROW_GROUPS,
        )


def rows_of(
    series: FileSeries, numbers: np.ndarray[Any, np.dtype[np.int64]], layout: PlannedLayout, schema: pa.Schema
) -> pa.RecordBatch:
    """The files of some whole hours as rows of a sidecar, in its order, with the columns of the order."""
    # Statistics are wanted as values, and their texts would take longer than all the rest.
    plain = replace(series, columns=())
    paths = plain.block(numbers).paths
    width = len(paths[0].as_py())
    text = np.frombuffer(paths.buffers()[2], dtype=np.uint8).reshape(len(paths), width)
    order = np.argsort(text.view(f"S{width}").reshape(-1), kind="stable")
    block = series.block(numbers[order])
    statistics = stats_struct(block)
    hours = as_strings(block.hour_text)
    columns: dict[str, pa.Array] = {
        "path": as_strings(text[order]),
        "size": pa.array(block.sizes),
        "modification_time": pa.array(block.modified),
        str(layout.schema.bucket_column): hours,
        "num_records": statistics.field("numRecords"),
        "#complete": pa.array(np.ones(len(block), dtype=np.int8)),
        "#0": hours,
        "#vector": pa.repeat("", len(block)),
    }
    for path in layout.schema.statistics:
        for prefix, member in (("min", "minValues"), ("max", "maxValues"), ("null_count", "nullCount")):
            found = statistics.field(member).field(path[0])
            name = f"{prefix}.{column_name(path)}"
            if name in schema.names:
                columns[name] = found.cast(schema.field(name).type)
    arrays = [columns.get(field.name, pa.nulls(len(block), field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

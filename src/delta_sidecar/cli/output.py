"""Batches on stdout, written as they come, and the lines of files; `table` has the forms that rows have."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from delta_sidecar.cli.text import human_size, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from delta_sidecar.cli.progress import Reporter
    from delta_sidecar.connect.duckdb import QueryRows
    from delta_sidecar.log.deletion_vectors import DeletionVector
    from delta_sidecar.rows.scan import RowStream
    from delta_sidecar.scan.files import DeltaFile


class Rendering(ABC):
    """A form of output: bytes for every batch, and before and after them where the form has a head and an end."""

    def start(self, schema: pa.Schema) -> bytes:  # noqa: ARG002 - most forms have no head
        """Bytes before the first batch."""
        return b""

    @abstractmethod
    def batch(self, batch: pa.RecordBatch) -> bytes | memoryview:
        """Bytes of a batch of files or rows."""

    def end(self) -> bytes:
        """Bytes after the last batch of a whole answer."""
        return b""

    def broken_off(self) -> bytes:
        """Bytes instead of the end, where the answer is not whole."""
        return b""


def write_batches(
    batches: pa.RecordBatchReader | RowStream | QueryRows, rendering: Rendering, reporter: Reporter
) -> None:
    """Writes each batch to stdout when it comes; where that breaks off, the output is marked as not whole."""
    stdout = sys.stdout.buffer

    def write(chunk: bytes | memoryview) -> None:
        if chunk:
            with reporter.aside():
                stdout.write(chunk)
                stdout.flush()

    try:
        write(rendering.start(batches.schema))
        for batch in batches:
            write(rendering.batch(batch))
        write(rendering.end())
    except BaseException:
        _break_off(stdout, rendering.broken_off())
        raise


def _break_off(stdout: BinaryIO, mark: bytes) -> None:
    """Marks the output as not whole, without waiting for a reader that may not read any more."""
    if not mark:
        return
    with suppress(OSError):
        os.set_blocking(stdout.fileno(), False)
        try:
            stdout.write(mark)
            stdout.flush()
        finally:
            os.set_blocking(stdout.fileno(), True)


class FileLines(Rendering):
    """A line per file: `file_text` or `file_json`."""

    def __init__(self, line: Callable[[DeltaFile], str]) -> None:
        self._line = line

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        from delta_sidecar.scan.files import delta_files

        return "".join(f"{self._line(file)}\n" for file in delta_files(batch)).encode()


def file_text(file: DeltaFile) -> str:
    """A file for people: size, modification time, records, `dv` where rows are deleted, path.

    The widths are fixed, since later files are not known yet; a longer value pushes its own line to the right.
    """
    records = file.num_records
    columns = (
        f"{human_size(file.size):>8}",
        f"{_iso_time(file.modification_time):20}",
        f"{'-' if records is None else f'{records:,}':>12}",
        "dv" if file.deletion_vector is not None else "- ",
        printable(file.path),
    )
    return "  ".join(columns)


def _iso_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    try:
        moment = dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds}ms"
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def file_json(file: DeltaFile) -> str:
    """A file as a JSON object with the fields of `DeltaFile`; statistics and tags as objects."""
    values = _fields(file)
    stats, vector = values.pop("stats"), file.deletion_vector
    if vector is not None:
        values["deletion_vector"] = {**_fields(vector), "unique_id": vector.unique_id}
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]},"stats":{_stats_json(stats)}}}'


def _fields(value: DeltaFile | DeletionVector) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__match_args__}


def _stats_json(text: str | None) -> str:
    """The statistics as the writer wrote them, so that no digit of a number is lost."""
    if text is None:
        return "null"
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    # In valid JSON a line break stands between tokens only.
    return text.replace("\n", " ").replace("\r", " ").strip()


def _refuse(constant: str) -> None:
    # NaN and Infinity, which Python would take, are not JSON.
    raise ValueError(constant)

"""Batches to stdout, one by one, as they come."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Protocol

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from delta_sidecar.cli.progress import Progress
    from delta_sidecar.cli.rendering import Rendering


class Batches(Protocol):
    """Batches of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """What each of them has."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Gives them."""


def write_batches(batches: Batches, rendering: Rendering, stdout: BinaryIO, progress: Progress) -> None:
    """Writes all batches; where that breaks off, what is written is marked as not whole."""
    try:
        _write(rendering.start(batches.schema), stdout, progress)
        for batch in batches:
            _write(rendering.batch(batch), stdout, progress)
        _write(rendering.end(), stdout, progress)
    except BaseException:
        _break_off(stdout, rendering.broken_off())
        raise


def refuse_binary_on_terminal(output: str, stdout: BinaryIO, ctx: click.Context) -> None:
    """Keeps Arrow's bytes from a terminal.

    Raises:
        click.UsageError: They would go there.
    """
    if output == "arrow" and stdout.isatty():
        msg = (
            f"Arrow output is binary: redirect it to a file or a program, as in --output arrow > {ctx.info_name}.arrow"
        )
        raise click.UsageError(msg, ctx)


def _write(chunk: bytes | memoryview, stdout: BinaryIO, progress: Progress) -> None:
    if chunk:
        with progress.aside():
            stdout.write(chunk)
            stdout.flush()


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

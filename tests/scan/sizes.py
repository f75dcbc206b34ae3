"""Sizes at which the library changes its ways, made so small that small tables reach them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

from delta_sidecar.execute import fetch as fetcher
from delta_sidecar.execute import json as json_lines
from delta_sidecar.execute import json as json_scan
from delta_sidecar.execute.parquet import (
    file as parquet_file,
)
from delta_sidecar.execute.parquet import (
    footer,
)
from delta_sidecar.execute.parquet import (
    scan as parquet_scan,
)
from delta_sidecar.execute.parquet import (
    select as row_selection,
)
from delta_sidecar.execute.parquet import (
    sparse as sparse_file,
)
from delta_sidecar.execute.parquet.file import BatchSize
from delta_sidecar.replay import scan as replay_scan
from delta_sidecar.replay.seen.seen import SeenSet

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def usual_sizes() -> Iterator[None]:
    yield


@contextmanager
def small_sizes(*, apart: bool = True) -> Iterator[None]:
    """Makes everything that depends on a size happen to small tables as well.

    Args:
        apart: Whether the columns that are tested first are fetched by themselves.
    """
    with ExitStack() as stack:
        for place, name, value in (
            (fetcher, "FIRST_BYTES", 300),
            (fetcher, "AHEAD_BYTES", 200),
            (json_scan, "FIRST_BYTES", 300),
            (json_scan, "BLOCK_BYTES", 250),
            (json_lines, "PARSED_BYTES", 120),
            (json_scan, "AHEAD_BYTES", 700),
            (parquet_scan, "_DECODED_BYTES", 1),
            (footer, "FOOTER_BYTES", 700),
            (parquet_scan, "FOOTER_BYTES", 700),
            (parquet_file, "HELD_BYTES", 64),
            (parquet_file, "BatchSize", partial(BatchSize, most_rows=2, bytes=64, fewest_rows=1)),
            (parquet_file, "_LARGE", 0),
            (row_selection, "_SPARSE", 1.0),
            (sparse_file, "_SMALLEST_READ", 16),
            (parquet_file, "_NARROWEST", 16),
            (parquet_file, "_TOGETHER", 0 if apart else 1 << 20),
            (row_selection, "_STRIP_ROWS", 3),
            (replay_scan, "SeenSet", lambda *_: SeenSet(0)),
        ):
            stack.enter_context(mock.patch.object(place, name, value))
        yield


SIZES = [usual_sizes, small_sizes, partial(small_sizes, apart=False)]

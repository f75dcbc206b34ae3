"""Reading the pieces of a sidecar that is there, on executors: whether it is whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from delta_sidecar.errors import ObjectNotFoundError, ObjectTruncatedError, SidecarError
from delta_sidecar.spark.access import unheard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

    from delta_sidecar.build.existing import PieceRange
    from delta_sidecar.store import Store

_PIECES_AT_ONCE = 64


def check_on_executors(spark: SparkSession, store: Store, pieces: Iterator[PieceRange]) -> None:
    """Reads pieces on executors, each of them all of its bytes.

    Args:
        spark: The session.
        store: The table's store; it travels with its credentials.
        pieces: The pieces: as many as there are row groups, twice.

    Raises:
        SidecarError: One is not what the manifest says, or gone.
    """
    listed = list(pieces)
    if not listed:
        return
    tasks = -(-len(listed) // _PIECES_AT_ONCE)
    # The store travels in what is sent here, with its credentials.
    with unheard():
        damaged = spark.sparkContext.parallelize(listed, tasks).mapPartitions(_Check(store).__call__).take(1)
    if damaged:
        raise SidecarError(damaged[0])


@dataclass(frozen=True, slots=True)
class _Check:
    """Finds pieces that are not whole, on an executor."""

    store: Store

    def __call__(self, pieces: Iterable[PieceRange]) -> Iterator[str]:
        for piece in pieces:
            try:
                piece.check(self.store)
            except (SidecarError, ObjectNotFoundError, ObjectTruncatedError) as error:
                yield str(error)

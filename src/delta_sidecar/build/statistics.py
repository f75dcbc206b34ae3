"""Texts of statistics as native columns, and which of them have to be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, nullable_int64s, valid_mask
from delta_sidecar.log.alike_stats import guess_statistics
from delta_sidecar.log.stats import ColumnStatistics, FileStatistics, parse_statistics
from delta_sidecar.log.stats_meaning import say_the_same
from delta_sidecar.replay.sidecar_stats import rebuilt_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from delta_sidecar.log.schema import ColumnPath

    Kinds = Mapping[ColumnPath, pa.DataType | None]


def native_statistics(
    texts: pa.StringArray, kinds: Kinds, stats_format: str, *, guess: bool
) -> tuple[FileStatistics, pa.StringArray]:
    """Reads texts of statistics; every column is there, if only as nulls.

    Args:
        texts: The texts; null where a file has none.
        kinds: Type of each column by its path, None for one that has no bounds.
        stats_format: The layout that texts are rebuilt in.
        guess: Whether they look alike, so that guessing is worth while. What comes out is the same.

    Returns:
        The statistics, and the texts that say more than can be rebuilt from them.
    """
    guessed = _guessed(texts, kinds, stats_format) if guess and texts.null_count < len(texts) else None
    if guessed is None:
        found = read_statistics(texts, kinds)
        return found, _kept(texts, rebuilt_texts(found, len(texts), stats_format), kinds)
    known, found = guessed
    if known.all():
        return found, pa.nulls(len(texts), pa.string())
    rest = texts.filter(booleans(~known))
    others = read_statistics(rest, kinds)
    kept = _kept(rest, rebuilt_texts(others, len(rest), stats_format), kinds)
    merge = _merging(known)
    return _merged(found, others, merge), merge(pa.nulls(len(texts) - len(rest), pa.string()), kept)


def read_statistics(texts: pa.StringArray, kinds: Kinds) -> FileStatistics:
    """Reads texts of statistics; every column is there, if only as nulls. Arguments as for `native_statistics`."""
    if texts.null_count == len(texts):
        return _filled(FileStatistics(None, None, {}), kinds, len(texts))
    found = parse_statistics(texts, {path: pa.binary() if kind is None else kind for path, kind in kinds.items()})
    return _filled(found, kinds, len(texts))


def _guessed(texts: pa.StringArray, kinds: Kinds, stats_format: str) -> tuple[NDArray[np.bool_], FileStatistics] | None:
    """Of which texts a guess is right, and what those say; None where it is right of few."""
    told = valid_mask(texts)
    present = texts if told.all() else texts.filter(booleans(told))
    guess = guess_statistics(present, kinds)
    if guess is None:
        return None
    alike = present if guess.fits.all() else present.filter(booleans(guess.fits))
    stats = _filled(guess.stats, kinds, len(alike))
    try:
        right = bits_of(pc.equal(alike, rebuilt_texts(stats, len(alike), stats_format)))
    except pa.ArrowInvalid:
        # A value was cut in the middle of a character.
        return None
    if np.count_nonzero(right) < len(texts) // 2:
        return None
    known = told.copy()
    fits = guess.fits.copy()
    fits[guess.fits] = right
    known[told] = fits
    if right.all():
        return known, stats
    chosen = booleans(right)
    return known, _each(stats, lambda column: column.filter(chosen))


def _filled(found: FileStatistics, kinds: Kinds, rows: int) -> FileStatistics:
    nothing = _Nulls(rows)
    unknown = ColumnStatistics(None, None, None)
    columns = {}
    for path, kind in kinds.items():
        column = found.columns.get(path, unknown)
        lower, upper = (nothing.of(kind) if side is None else side for side in (column.lower, column.upper))
        counts = nothing.of(pa.int64()) if column.null_count is None else column.null_count
        columns[path] = ColumnStatistics(None if kind is None else lower, None if kind is None else upper, counts)
    num_records = nothing.of(pa.int64()) if found.num_records is None else found.num_records
    return FileStatistics(num_records, nothing.of(pa.bool_()) if found.tight is None else found.tight, columns)


class _Nulls:
    """Columns of nulls, which share their memory: a wide table may have no statistics at all."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._known: dict[pa.DataType, pa.Array] = {}

    def of(self, kind: pa.DataType | None) -> pa.Array | None:
        """A column of a type; None for no type."""
        if kind is None:
            return None
        if kind not in self._known:
            self._known[kind] = pa.nulls(self._rows, kind)
        return self._known[kind]


def _kept(texts: pa.StringArray, rebuilt: pa.StringArray, kinds: Kinds) -> pa.StringArray:
    """The texts that say something else than what is rebuilt."""
    kept = valid_mask(texts) & ~bits_of(pc.equal(texts, rebuilt))
    if kept.any():
        differing = booleans(kept)
        kept[kept] = ~say_the_same(texts.filter(differing), rebuilt.filter(differing), kinds)
    if not kept.any():
        return pa.nulls(len(texts), pa.string())
    # Taking copies what is kept and nothing else.
    return texts.take(nullable_int64s(np.arange(len(texts), dtype=np.int64), kept))


def _merging(first: NDArray[np.bool_]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """What puts two columns together: the values of one where `first` says so, those of the other elsewhere."""
    places = np.empty(len(first), dtype=np.int64)
    count = int(np.count_nonzero(first))
    places[first] = np.arange(count)
    places[~first] = np.arange(count, len(first))
    order = int64s(places)
    return lambda one, other: pa.concat_arrays([one, other]).take(order)


def _merged(
    one: FileStatistics, other: FileStatistics, merge: Callable[[pa.Array, pa.Array], pa.Array]
) -> FileStatistics:
    def both(left: pa.Array | None, right: pa.Array | None) -> pa.Array | None:
        return None if left is None or right is None else merge(left, right)

    columns = {
        path: ColumnStatistics(
            both(column.lower, other.columns[path].lower),
            both(column.upper, other.columns[path].upper),
            both(column.null_count, other.columns[path].null_count),
        )
        for path, column in one.columns.items()
    }
    return FileStatistics(both(one.num_records, other.num_records), both(one.tight, other.tight), columns)


def _each(stats: FileStatistics, change: Callable[[pa.Array], pa.Array]) -> FileStatistics:
    def changed(column: pa.Array | None) -> pa.Array | None:
        return None if column is None else change(column)

    columns = {
        path: ColumnStatistics(changed(column.lower), changed(column.upper), changed(column.null_count))
        for path, column in stats.columns.items()
    }
    return FileStatistics(changed(stats.num_records), changed(stats.tight), columns)

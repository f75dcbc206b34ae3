"""Sorted runs of digests in temporary files, for what is too much for memory.

A file has no name, or none for long: it is gone when nobody uses it any more, however the process ends. It holds block
after block, and each its fingerprints, then its digests. The first fingerprint of each block stays in memory, so that
a lookup only reads blocks that may have what is asked for.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from delta_sidecar.errors import TemporaryFileError
from delta_sidecar.replay.sorted_runs import BLOCK_KEYS, DigestRun, Run, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from delta_sidecar.replay.key_hashes import Digests, Fingerprints
    from delta_sidecar.replay.sorted_runs import Asked, Mask, Rows

_FINGERPRINT_BYTES = 8
_DIGEST_BYTES = 16
_ENTRY_BYTES = _FINGERPRINT_BYTES + _DIGEST_BYTES


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """A run of digests in a file. Lookups may come from several threads.

    Attributes:
        starts: How many digests are before each block, and then how many there are.
        firsts: The first fingerprint of each block.
    """

    starts: Rows
    firsts: Fingerprints
    _file: _ScratchFile

    @classmethod
    def of(cls, streams: Sequence[Iterator[DigestRun]]) -> SpilledRun:
        """Writes one run of what streams of blocks hold.

        Raises:
            TemporaryFileError: There is no room for it, or no folder to write to.
        """
        file = _ScratchFile()
        starts, firsts = [0], []
        for block in _even(in_order(streams)):
            file.append(block.fingerprints)
            file.append(block.digests)
            starts.append(starts[-1] + len(block))
            firsts.append(block.fingerprints[0])
        return cls(np.array(starts, dtype=np.int64), np.array(firsts, dtype=np.uint64), file)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the content; the copy has a file of its own."""
        return _restored, (list(self.blocks()),)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.starts.nbytes + self.firsts.nbytes

    def find(self, asked: Asked) -> Mask:
        """Tells, key by key, whether it is here.

        Raises:
            TemporaryFileError: The file cannot be read.
        """
        wanted = asked.fingerprints
        found = np.zeros(len(wanted), dtype=np.bool_)
        blocks = np.searchsorted(self.firsts, wanted, side="right") - 1
        edges = np.flatnonzero(np.diff(blocks, prepend=-1, append=len(self.firsts)))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            found[start:end] = self._block(int(blocks[start])).find(_Stretch(asked, start, end))
        return found

    def blocks(self) -> Iterator[DigestRun]:
        """Reads it, block by block."""
        for number in range(len(self.firsts)):
            block = self._block(number)
            yield DigestRun(block.fingerprints, block.digests())

    def _block(self, number: int) -> _Block:
        start, end = self.starts[number : number + 2].tolist()
        offset, count = start * _ENTRY_BYTES, end - start
        fingerprints = self._file.words(offset, count)
        return _Block(fingerprints, self._file, offset + count * _FINGERPRINT_BYTES)


def _restored(blocks: list[DigestRun]) -> SpilledRun:
    return SpilledRun.of([iter(blocks)])


def _even(pieces: Iterable[DigestRun]) -> Iterator[DigestRun]:
    """Cuts and joins pieces that follow each other, so that blocks stay small however often they are merged."""
    waiting: list[DigestRun] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(len(part) for part in waiting) > BLOCK_KEYS:
            *blocks, last = _joined(waiting).blocks()
            yield from blocks
            waiting = [last]
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[DigestRun]) -> DigestRun:
    if len(parts) == 1:
        return parts[0]
    return DigestRun(
        np.concatenate([part.fingerprints for part in parts]), np.concatenate([part.digests for part in parts])
    )


@dataclass(frozen=True, slots=True)
class _Block(Run):
    """A block of a file; its digests are read once they are needed."""

    fingerprints: Fingerprints
    file: _ScratchFile
    offset: int

    @property
    def nbytes(self) -> int:
        return self.fingerprints.nbytes

    def identities_at(self, rows: Rows) -> Digests:
        return self.digests()[rows]

    def digests(self) -> Digests:
        return self.file.words(self.offset, 2 * len(self)).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of what is asked for."""

    asked: Asked
    start: int
    end: int

    @property
    def fingerprints(self) -> Fingerprints:
        return self.asked.fingerprints[self.start : self.end]

    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401 - as what it is a part of
        return self.asked.identities_at(rows + self.start)


class _ScratchFile:
    """A temporary file that is written once, from its beginning to its end, and then only read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        try:
            self._file = tempfile.TemporaryFile(prefix="delta-sidecar-", buffering=0)  # noqa: SIM115 - closed below
        except OSError as error:
            raise _unwritable(error) from error
        weakref.finalize(self, self._file.close).atexit = False

    def append(self, words: Fingerprints) -> None:
        data = np.ascontiguousarray(words).data.cast("B")
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _unwritable(error) from error

    def words(self, offset: int, count: int) -> Fingerprints:
        size = count * 8
        try:
            data = self._read(offset, size)
        except OSError as error:
            msg = f"cannot read the keys of removed files back from a temporary file: {error}"
            raise TemporaryFileError(msg) from error
        if len(data) < size:
            msg = f"the temporary file with the keys of removed files has lost its end: {len(data)} bytes of {size}"
            raise TemporaryFileError(msg)
        return np.frombuffer(data, dtype=np.uint64)

    def _read(self, offset: int, size: int) -> bytes:
        # A position that is shared, with threads or with a forked process, must not decide on what is read.
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), size, offset)
        with self._lock:
            self._file.seek(offset)
            return self._file.read(size)


def _unwritable(error: OSError) -> TemporaryFileError:
    msg = (
        f"the keys of removed files do not fit into memory, and cannot be written to a temporary file: {error}. "
        f"Make room, name another folder in TMPDIR, or raise remove_set_memory_limit."
    )
    return TemporaryFileError(msg)

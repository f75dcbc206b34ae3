"""Sorted runs of keys: what a seen-set is made of.

A run never changes. It has a fingerprint and a digest for each key, in ascending order of the fingerprints. Both depend
on a secret, so that nobody can choose what collides. Fingerprints are cheap, made for whole batches, and only find
candidates; digests, of 128 bits by blake2b, decide.
"""

from __future__ import annotations

import itertools
import mmap
import os
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct, field

from delta_sidecar._arrow import from_numpy, to_numpy
from delta_sidecar.errors import TemporaryFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    import pyarrow as pa
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Rows = NDArray[np.int64]
    Fingerprints = NDArray[np.uint64]
    """64 bits for each key."""
    Digests = NDArray[np.uint64]
    """A row of two words for each key."""

BLOCK_KEYS = 8192
"""About so many keys of a run are handled at once."""

_LARGE = 256 << 10
_MOST_WORDS = 4096
_FINGERPRINT_BYTES, _DIGEST_BYTES = 8, 16


class LookedUp(Protocol):
    """Keys that are looked up, in ascending order of their fingerprints."""

    @property
    def fingerprints(self) -> Fingerprints:
        """Their fingerprints."""

    def digests_at(self, rows: Rows) -> Digests:
        """The digests of some of them."""

    def between(self, start: int, end: int) -> LookedUp:
        """A stretch of them."""


class Run(Struct, frozen=True):
    """Keys in memory."""

    fingerprints: Fingerprints
    digests: Digests

    def __len__(self) -> int:
        return len(self.fingerprints)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.fingerprints.nbytes + self.digests.nbytes

    def digests_at(self, rows: Rows) -> Digests:
        """Some of its digests."""
        return self.digests[rows]

    def find(self, keys: LookedUp) -> Mask:
        """Key by key, whether it is here."""
        return find(self.fingerprints, self.digests_at, keys)

    def only(self, chosen: Mask) -> Run:
        """A part of it."""
        return self if chosen.all() else Run(self.fingerprints[chosen], self.digests[chosen])

    def between(self, start: int, end: int) -> Run:
        """A stretch of it; it shares its memory."""
        return Run(self.fingerprints[start:end], self.digests[start:end])

    def blocks(self) -> Iterator[Run]:
        """Cuts it into blocks; equal fingerprints stay together."""
        starts = np.searchsorted(self.fingerprints, self.fingerprints[::BLOCK_KEYS])
        # They go up; np.unique would import more than this takes.
        starts = starts[np.diff(starts, prepend=-1) > 0]
        for start, end in itertools.pairwise([*starts.tolist(), len(self)]):
            yield self.between(start, end)


def find(fingerprints: Fingerprints, digests_at: Callable[[Rows], Digests], keys: LookedUp) -> Mask:
    """Key by key, whether it is in a run; digests are taken for those only whose fingerprint is."""
    wanted = keys.fingerprints
    met = np.zeros(len(wanted), dtype=np.bool_)
    place = np.searchsorted(fingerprints, wanted)

    def candidates(rows: Rows) -> Rows:
        inside = rows[place[rows] < len(fingerprints)]
        found: Rows = inside[fingerprints[place[inside]] == wanted[inside]]
        return found

    left = candidates(np.arange(len(wanted)))
    # Two keys may share a fingerprint: go along equal fingerprints until the digest is met.
    while len(left):
        same = (digests_at(place[left]) == keys.digests_at(left)).all(axis=1)
        met[left[same]] = True
        left = left[~same]
        place[left] += 1
        left = candidates(left)
    return met


def merged(runs: Sequence[Run]) -> Run:
    """One run of all that is in runs, made block by block: beside it there is little more than the runs."""
    count = sum(map(len, runs))
    if count <= BLOCK_KEYS:
        return _sorted(_joined(runs))
    fingerprints, digests = _words(count), _words(2 * count).reshape(-1, 2)
    end = 0
    for block in in_order([run.blocks() for run in runs]):
        start, end = end, end + len(block)
        fingerprints[start:end], digests[start:end] = block.fingerprints, block.digests
    return Run(fingerprints, digests)


def in_order(streams: Sequence[Iterator[Run]]) -> Iterator[Run]:
    """Merges streams of blocks, each of which goes up, into one that does. Equal fingerprints stay together."""
    heads = [(head, stream) for stream in streams if (head := next(stream, None)) is not None]
    while heads:
        # Up to here every stream has shown all that it has.
        cut = min(head.fingerprints[-1] for head, _ in heads)
        pieces, left = [], []
        for head, stream in heads:
            count = int(np.searchsorted(head.fingerprints, cut, side="right"))
            pieces.append(head.between(0, count))
            rest = head.between(count, len(head)) if count < len(head) else next(stream, None)
            if rest is not None:
                left.append((rest, stream))
        heads = left
        yield _sorted(_joined(pieces))


def _joined(parts: Sequence[Run]) -> Run:
    if len(parts) == 1:
        return parts[0]
    return Run(np.concatenate([part.fingerprints for part in parts]), np.concatenate([part.digests for part in parts]))


def _sorted(run: Run) -> Run:
    order = np.argsort(run.fingerprints, kind="stable")
    return Run(run.fingerprints[order], run.digests[order])


def _words(count: int) -> NDArray[np.uint64]:
    """Room for words. Much of it is memory of its own, which goes back to the system with its last user."""
    if count * 8 < _LARGE:
        return np.empty(count, dtype=np.uint64)
    return np.frombuffer(mmap.mmap(-1, count * 8), dtype=np.uint64)


class SpilledRun(Struct, frozen=True):
    """A run in a temporary file. Lookups may come from several threads.

    The file holds block after block, and each its fingerprints, then its digests. The first fingerprint of each block
    stays in memory, so that a lookup only reads blocks that may have what is asked for.
    """

    starts: Rows  # how many keys are before each block, and then how many there are
    firsts: Fingerprints  # the first fingerprint of each block
    _file: _ScratchFile

    @classmethod
    def of(cls, streams: Sequence[Iterator[Run]]) -> SpilledRun:
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

    def find(self, keys: LookedUp) -> Mask:
        """Key by key, whether it is here.

        Raises:
            TemporaryFileError: The file cannot be read.
        """
        wanted = keys.fingerprints
        found = np.zeros(len(wanted), dtype=np.bool_)
        blocks = np.searchsorted(self.firsts, wanted, side="right") - 1
        edges = np.flatnonzero(np.diff(blocks, prepend=-1, append=len(self.firsts)))
        for start, end in itertools.pairwise(edges.tolist()):
            number = int(blocks[start])
            # The digests of a block are read only if one of its fingerprints is met.
            found[start:end] = find(
                self._fingerprints(number), partial(self._digests_at, number), keys.between(start, end)
            )
        return found

    def blocks(self) -> Iterator[Run]:
        """Reads it, block by block."""
        for number in range(len(self.firsts)):
            yield Run(self._fingerprints(number), self._digests(number))

    def _fingerprints(self, number: int) -> Fingerprints:
        start, end = self.starts[number : number + 2].tolist()
        return self._file.words(start * (_FINGERPRINT_BYTES + _DIGEST_BYTES), end - start)

    def _digests_at(self, number: int, rows: Rows) -> Digests:
        return self._digests(number)[rows]

    def _digests(self, number: int) -> Digests:
        start, end = self.starts[number : number + 2].tolist()
        offset = start * (_FINGERPRINT_BYTES + _DIGEST_BYTES) + (end - start) * _FINGERPRINT_BYTES
        return self._file.words(offset, 2 * (end - start)).reshape(-1, 2)


def _restored(blocks: list[Run]) -> SpilledRun:
    return SpilledRun.of([iter(blocks)])


def _even(pieces: Iterable[Run]) -> Iterator[Run]:
    """Cuts and joins pieces that follow each other, so that blocks stay small however often they are merged."""
    waiting: list[Run] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) > BLOCK_KEYS:
            *blocks, last = _joined(waiting).blocks()
            yield from blocks
            waiting = [last]
    if waiting:
        yield _joined(waiting)


class _ScratchFile:
    """A temporary file that is written once, from its beginning to its end, and then only read.

    It has no name, or none for long: it is gone when nobody uses it any more, however the process ends.
    """

    def __init__(self) -> None:
        import tempfile

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


class KeyHashes(Struct, frozen=True):
    """Makes fingerprints and digests; those of two instances have nothing to do with each other."""

    secret: bytes = field(default_factory=lambda: os.urandom(16))

    def __repr__(self) -> str:
        return "KeyHashes()"  # the secret stays one

    def fingerprints(self, keys: pa.BinaryArray) -> Fingerprints:
        """A weighted sum of each key's eight-byte words, with secret odd weights; all keys of a length at once."""
        from hashlib import shake_128

        lengths = to_numpy(pc.binary_length(keys))
        out = np.zeros(len(keys), dtype=np.uint64)
        for length in np.flatnonzero(np.bincount(lengths)):
            where = lengths == length
            same = keys if where.all() else keys.filter(from_numpy(where))
            words = _key_words(same, int(length))
            weights = np.frombuffer(shake_128(self.secret).digest(words.shape[1] * 8), dtype=np.uint64) | np.uint64(1)
            out[where] = words @ weights + np.uint64(length)
        return out

    def digests(self, keys: pa.BinaryArray) -> Digests:
        """A keyed blake2b of each key."""
        from hashlib import blake2b

        if not len(keys):
            return np.zeros((0, 2), dtype=np.uint64)
        offsets, data = keys.buffers()[1:]
        bounds = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].tolist()
        view = memoryview(b"" if data is None else data)
        out = bytearray()
        for start, end in itertools.pairwise(bounds):
            out += blake2b(view[start:end], digest_size=_DIGEST_BYTES, key=self.secret).digest()
        return np.frombuffer(out, dtype=np.uint64).reshape(-1, 2)


def _key_words(keys: pa.BinaryArray, length: int) -> NDArray[np.uint64]:
    """Keys of one length as a matrix of words. Of a very long key only the beginning counts."""
    used = min(length, _MOST_WORDS * 8)
    padded = np.zeros((len(keys), max(8, -(-used // 8) * 8)), dtype=np.uint8)
    if length:
        offsets, data = keys.buffers()[1:]
        start = int(np.frombuffer(offsets, dtype=np.int32)[keys.offset])
        content = np.frombuffer(data, dtype=np.uint8)[start : start + len(keys) * length]
        padded[:, :used] = content.reshape(len(keys), length)[:, :used]
    return padded.view(np.uint64)

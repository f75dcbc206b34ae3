"""Sorted runs of keys: what a seen-set is made of.

A run never changes. It has fingerprints in ascending order, and beside each the key itself or its digest: fingerprints
find candidates for a whole batch at once, and what stands beside them decides.
"""

from __future__ import annotations

import itertools
import mmap
import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from hashlib import blake2b, shake_128
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar._arrow import bits_of, booleans, int64s, numbers_of
from delta_sidecar.errors import TemporaryFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


class Asked(Protocol):
    """Keys that are looked up."""

    @property
    def fingerprints(self) -> Fingerprints:
        """Their fingerprints, in ascending order."""

    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401 - Arrow's keys or numpy's digests
        """What stands beside some of them: keys, or digests where it is asked of digests."""


class Run(ABC):
    """Some keys, at least one, in ascending order of their fingerprints."""

    fingerprints: Fingerprints

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.fingerprints)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory it holds."""

    @abstractmethod
    def identities_at(self, rows: Rows) -> Any:  # noqa: ANN401
        """What stands beside some of its fingerprints."""

    def find(self, asked: Asked) -> Mask:
        """Tells, key by key, whether it is here."""
        wanted = asked.fingerprints
        found = np.zeros(len(wanted), dtype=np.bool_)
        place = np.searchsorted(self.fingerprints, wanted)
        open_ = np.flatnonzero(self._has(place, wanted))
        # Two keys may share a fingerprint: go along equal fingerprints until the key itself is met.
        while len(open_):
            same = self._equal(self.identities_at(place[open_]), asked.identities_at(open_))
            found[open_[same]] = True
            open_ = open_[~same]
            place[open_] += 1
            open_ = open_[self._has(place[open_], wanted[open_])]
        return found

    def _has(self, place: Rows, wanted: Fingerprints) -> Mask:
        """Whether fingerprints stand at these places."""
        inside = place < len(self.fingerprints)
        matches: Mask = self.fingerprints[np.where(inside, place, 0)] == wanted
        return inside & matches

    def _equal(self, some: Digests, others: Digests) -> Mask:
        equal: Mask = (some == others).all(axis=1)
        return equal


@dataclass(frozen=True, slots=True)
class KeyRun(Run):
    """A run of whole keys."""

    fingerprints: Fingerprints
    keys: pa.BinaryArray

    @classmethod
    def merged(cls, runs: Sequence[Self]) -> Self:
        """One run of all their keys."""
        fingerprints = np.concatenate([run.fingerprints for run in runs])
        order = np.argsort(fingerprints, kind="stable")
        return cls(fingerprints[order], pa.concat_arrays([run.keys for run in runs]).take(int64s(order)))

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.fingerprints.nbytes + int(self.keys.get_total_buffer_size())

    def identities_at(self, rows: Rows) -> pa.BinaryArray:
        """Some of its keys."""
        return self.keys.take(int64s(rows))

    def only(self, chosen: Mask) -> KeyRun:
        """A part of it."""
        return self if chosen.all() else KeyRun(self.fingerprints[chosen], self.keys.filter(booleans(chosen)))

    def digested(self, hashes: KeyHashes) -> DigestRun:
        """The same keys as digests."""
        return DigestRun(self.fingerprints, hashes.digests(self.keys))

    def _equal(self, some: pa.BinaryArray, others: pa.BinaryArray) -> Mask:
        return bits_of(pc.equal(some, others))


@dataclass(frozen=True, slots=True)
class DigestRun(Run):
    """A run of digests."""

    fingerprints: Fingerprints
    digests: Digests

    @classmethod
    def merged(cls, runs: Sequence[Self]) -> Self:
        """One run of all their digests, made piece by piece: beside it there is little more than the runs."""
        count = sum(len(run) for run in runs)
        fingerprints, digests = _words(count), _words(2 * count).reshape(-1, 2)
        end = 0
        for piece in in_order([run.blocks() for run in runs]):
            start, end = end, end + len(piece)
            fingerprints[start:end], digests[start:end] = piece.fingerprints, piece.digests
        return cls(fingerprints, digests)

    @property
    def nbytes(self) -> int:
        """The memory it holds."""
        return self.fingerprints.nbytes + self.digests.nbytes

    def identities_at(self, rows: Rows) -> Digests:
        """Some of its digests."""
        return self.digests[rows]

    def only(self, chosen: Mask) -> DigestRun:
        """A part of it."""
        return self if chosen.all() else DigestRun(self.fingerprints[chosen], self.digests[chosen])

    def between(self, start: int, end: int) -> DigestRun:
        """A stretch of it; it shares its memory."""
        return DigestRun(self.fingerprints[start:end], self.digests[start:end])

    def blocks(self) -> Iterator[DigestRun]:
        """Cuts it into blocks; equal fingerprints stay together."""
        starts = np.unique(np.searchsorted(self.fingerprints, self.fingerprints[::BLOCK_KEYS])).tolist()
        for start, end in itertools.pairwise([*starts, len(self)]):
            yield self.between(start, end)


def merged(runs: Sequence[KeyRun | DigestRun]) -> KeyRun | DigestRun:
    """One run of all that is in runs, which are of one kind."""
    digests = [run for run in runs if isinstance(run, DigestRun)]
    return DigestRun.merged(digests) if digests else KeyRun.merged([run for run in runs if isinstance(run, KeyRun)])


def in_order(streams: Sequence[Iterator[DigestRun]]) -> Iterator[DigestRun]:
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
        fingerprints = np.concatenate([piece.fingerprints for piece in pieces])
        order = np.argsort(fingerprints, kind="stable")
        yield DigestRun(fingerprints[order], np.concatenate([piece.digests for piece in pieces])[order])


def _words(count: int) -> NDArray[np.uint64]:
    """Room for words. Much of it is memory of its own, which goes back to the system with its last user."""
    if count * 8 < _LARGE:
        return np.empty(count, dtype=np.uint64)
    return np.frombuffer(mmap.mmap(-1, count * 8), dtype=np.uint64)


# Sorted runs of digests in temporary files, for what is too much for memory.
#
# A file has no name, or none for long: it is gone when nobody uses it any more, however the process ends. It holds
# block after block, and each its fingerprints, then its digests. The first fingerprint of each block stays in memory,
# so that a lookup only reads blocks that may have what is asked for.


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


# Fingerprints and digests of keys: short stand-ins that depend on a secret, so that nobody can choose what collides.
#
# A fingerprint is cheap, made for whole batches at once, and only finds candidates. A digest decides.


DIGEST_BYTES = 16

_MOST_WORDS = 4096


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """Makes fingerprints and digests; those of two instances have nothing to do with each other."""

    secret: bytes = field(default_factory=lambda: os.urandom(16), repr=False)

    def fingerprints(self, keys: pa.BinaryArray) -> Fingerprints:
        """A weighted sum of each key's eight-byte words, with secret odd weights; all keys of a length at once."""
        lengths = numbers_of(pc.binary_length(keys))
        out = np.zeros(len(keys), dtype=np.uint64)
        for length in np.flatnonzero(np.bincount(lengths)):
            where = lengths == length
            same = keys if where.all() else keys.filter(booleans(where))
            words = _words_of_key_hashes(same, int(length))
            out[where] = words @ self._weights(words.shape[1]) + np.uint64(length)
        return out

    def digests(self, keys: pa.BinaryArray) -> Digests:
        """A keyed blake2b of each key."""
        if not len(keys):
            return np.zeros((0, 2), dtype=np.uint64)
        offsets, data = keys.buffers()[1:]
        bounds = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1].tolist()
        view = memoryview(b"" if data is None else data)
        out = bytearray()
        for start, end in itertools.pairwise(bounds):
            out += blake2b(view[start:end], digest_size=DIGEST_BYTES, key=self.secret).digest()
        return np.frombuffer(out, dtype=np.uint64).reshape(-1, 2)

    def _weights(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(shake_128(self.secret).digest(count * 8), dtype=np.uint64) | np.uint64(1)


def _words_of_key_hashes(keys: pa.BinaryArray, length: int) -> NDArray[np.uint64]:
    """Keys of one length as a matrix of words. Of a very long key only the beginning counts."""
    used = min(length, _MOST_WORDS * 8)
    padded = np.zeros((len(keys), max(8, -(-used // 8) * 8)), dtype=np.uint8)
    if length:
        offsets, data = keys.buffers()[1:]
        start = int(np.frombuffer(offsets, dtype=np.int32)[keys.offset])
        content = np.frombuffer(data, dtype=np.uint8)[start : start + len(keys) * length]
        padded[:, :used] = content.reshape(len(keys), length)[:, :used]
    return padded.view(np.uint64)

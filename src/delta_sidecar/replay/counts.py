"""The account of a replay: where it stands, how many file entries it met, and what became of them."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from delta_sidecar.replay.bases.base import Decided
    from delta_sidecar.replay.seen.seen import SeenSet
    from delta_sidecar.replay.snapshot import BaseChoice


@dataclass(frozen=True, slots=True)
class TallyCounts:
    """What became of the file entries that a replay met.

    Attributes:
        commit_adds: Entries in commits.
        commit_hidden: Of those, dead: a newer commit spoke of them.
        commit_pruned: Of those, live ones that cannot match.
        base_adds: Entries in the base, as far as they were looked at; not of one that proved unusable before its
            first file.
        base_pruned_early: Of those, not decoded further: their partition values or typed statistics cannot match.
        base_hidden: Of those, dead.
        base_pruned: Of those, live ones that cannot match by the text of their statistics.
    """

    commit_adds: int = 0
    commit_hidden: int = 0
    commit_pruned: int = 0
    base_adds: int = 0
    base_pruned_early: int = 0
    base_hidden: int = 0
    base_pruned: int = 0


class Tally:
    """Counts, from any thread. It pickles as zero: what was counted belongs to a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys((field.name for field in fields(TallyCounts)), 0)
        self._bases: list[Tally] = []

    def add(self, **counts: int) -> None:
        """Counts, by the names of `TallyCounts`."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += count

    def of_base(self) -> Tally:
        """Counts the entries of another base; they are part of the counts, unless it is dropped."""
        base = Tally()
        with self._lock:
            self._bases.append(base)
        return base

    def drop_base(self) -> None:
        """Leaves out what is counted of the last base: nothing of it was used. Threads may still be counting."""
        with self._lock:
            self._bases.pop()

    def counts(self) -> TallyCounts:
        """The counts as they are now."""
        with self._lock:
            counts, bases = dict(self._counts), tuple(self._bases)
        for base in bases:
            for name, count in asdict(base.counts()).items():
                counts[name] += count
        return TallyCounts(**counts)

    def __reduce__(self) -> tuple[type[Tally], tuple[()]]:
        return Tally, ()

    def __deepcopy__(self, _: object) -> Tally:
        return self


@dataclass(slots=True)
class Account:
    """Where a replay stands, for whoever runs it. It pickles empty.

    Attributes:
        tally: Counts the file entries that it meets.
        choice: The log, and the base that it ends on or tries next; None before it began.
        seen: The keys that it remembers; None before it began, and once it is settled.
        decided: What bases decided on before they broke off.
    """

    tally: Tally = field(default_factory=Tally)
    choice: BaseChoice | None = None
    seen: SeenSet | None = None
    decided: tuple[Decided, ...] = ()
    _settled: tuple[int, str] | None = None

    @property
    def seen_keys(self) -> int | None:
        """How many keys it remembers or remembered; None before it began."""
        if self.seen is not None:
            return len(self.seen)
        return None if self._settled is None else self._settled[0]

    @property
    def seen_tier(self) -> str:
        """Where they are or were."""
        if self.seen is not None:
            return self.seen.tier
        return "keys" if self._settled is None else self._settled[1]

    def settle(self) -> None:
        """Lets the keys go, with their files; how many there were stays."""
        if self.seen is not None:
            self._settled = (len(self.seen), self.seen.tier)
            self.seen = None

    def __reduce__(self) -> tuple[type[Account], tuple[()]]:
        return Account, ()

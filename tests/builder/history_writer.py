"""A writer that does something legal to a table when asked, and remembers what it has done."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hypothesis import strategies as st
from tests.builder.actions import add, deletion_vector, protocol, remove, txn
from tests.builder.columns import kinds_of, partition_value, value
from tests.builder.schema_changes import changed
from tests.builder.statistics import NOT_A_NUMBER, Habits, stats_of
from tests.builder.values import partition_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.builder.actions import Row
    from tests.builder.schemas import Schema

# Java's URIs leave these as they are; everything outside of ASCII stays too.
_PLAIN_IN_JAVA = "/=+,;@&$!*'()~._-"
_NAMES = ("part-{}.parquet", "a b-{}.parquet", "100%-{}.parquet", "a+b-{}.parquet", "x%20y-{}.parquet")
_MORE_NAMES = ("ünï-{}.parquet", "#q?{}&.parquet", "dir=%2F/ä-{}.parquet", "\U0001f600-{}.parquet")


_HABITS = st.builds(
    Habits,
    nan=st.sampled_from(NOT_A_NUMBER),
    after_cut=st.sampled_from(["\U0010ffff", "\ufffd", ""]),
    booleans=st.booleans(),
    zone=st.sampled_from([None, None, dt.timedelta(hours=-8), dt.timedelta(hours=5, minutes=30)]),
    timespec=st.sampled_from(["milliseconds", "milliseconds", "microseconds"]),
    through_double=st.booleans(),
    short_floats=st.booleans(),
)


@dataclass(frozen=True)
class _DataFile:
    """A data file: what is in it never changes, whatever the log does with it."""

    path: str
    rows: tuple[Row, ...]
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class _Logical:
    """A data file with the rows that its deletion vector hides."""

    file: _DataFile
    vector: Mapping[str, Any] | None = None
    hidden: frozenset[int] = frozenset()


class HistoryWriter:
    """Draws changes that are legal after those before.

    Attributes:
        schema: The table's schema.
        features: The table features in force.
        complete: Whether every file has statistics of every column.
    """

    def __init__(
        self, draw: st.DrawFn, schema: Schema, zone: dt.timedelta, *, portable: bool = False, complete: bool = False
    ) -> None:
        self.schema = schema
        self.features: tuple[str, ...] = ()
        self.complete = complete
        self._draw = draw
        self._zone = zone
        self._portable = portable
        self._live: dict[str, _Logical] = {}
        self._gone: dict[str, _DataFile] = {}
        self._touched: set[str] = set()
        self._count = 0

    def commit_ends(self) -> None:
        """Makes files of the last commit open to change again: a commit names a path once."""
        self._touched.clear()

    def protocol(self) -> dict[str, Any]:
        """Draws features on top of those in force, and gives the protocol action."""
        known = ("deletionVectors", "v2Checkpoint", "columnMapping", "timestampNtz")
        needed = {
            "columnMapping": self.schema.mode != "none",
            "timestampNtz": "timestamp_ntz"
            in kinds_of({field.name: field.physical_kind for field in self.schema.fields}),
        }
        drawn = self._draw(st.sets(st.sampled_from(known[:3])))
        self.features = tuple(name for name in known if name in drawn or name in self.features or needed.get(name))
        if self.features == ("columnMapping",) and self._draw(st.booleans()):
            return protocol(2, 5)
        return protocol(features=self.features, writer_features=["appendOnly"]) if self.features else protocol()

    def upgrade(self) -> list[dict[str, Any]]:
        """Changes the protocol."""
        return [self.protocol()]

    def append(self, least: int = 1, most: int = 3) -> list[dict[str, Any]]:
        """Adds new files."""
        return [self._added(self._new_file()) for _ in range(self._draw(st.integers(least, most)))]

    def remove(self) -> list[dict[str, Any]]:
        """Removes live files."""
        return [self._removed(path) for path in self._some(self._live)]

    def add_again(self) -> list[dict[str, Any]]:
        """Adds files back that were removed, without a deletion vector."""
        return [self._added(_Logical(self._gone.pop(path))) for path in self._some(self._gone)]

    def new_statistics(self) -> list[dict[str, Any]]:
        """Adds live files again under the same key, without a remove."""
        return [self._added(self._live[path]) for path in self._some(self._live)]

    def deletion_vector(self) -> list[dict[str, Any]]:
        """Hides rows of live files: the old logical file goes and the new one comes in one commit."""
        actions = []
        for path in self._some(self._live) if "deletionVectors" in self.features else []:
            old = self._live[path]
            visible = sorted(set(range(len(old.file.rows))) - old.hidden)
            if not visible:
                continue
            hidden = old.hidden | self._draw(st.sets(st.sampled_from(visible), min_size=1))
            vector = deletion_vector(
                f"{path} {self._number()}",
                storage_type=self._draw(st.sampled_from("uip")),
                offset=self._draw(st.sampled_from([None, 1, 45])),
                cardinality=len(hidden),
            )
            both = [self._remove_action(old), self._added(_Logical(old.file, vector, hidden))]
            actions += self._draw(st.permutations(both))
        return actions

    def rewrite(self) -> list[dict[str, Any]]:
        """Replaces files by others in one commit."""
        return self._draw(st.permutations(self.remove() + self.append()))

    def same_key_twice(self) -> list[dict[str, Any]]:
        """Removes files and adds the same keys in one commit, in either order: they stay."""
        actions = []
        for path in self._some(self._live):
            both = [self._remove_action(self._live[path]), self._added(self._live[path])]
            actions += self._draw(st.permutations(both))
        return actions

    def metadata(self) -> list[dict[str, Any]]:
        """Changes properties or the schema; once in a commit."""
        self.schema = changed(self._draw, self.schema, self.features)
        note = {"delta.appendOnly": "false", "custom.note": str(self._number())}
        return [self.schema.action(**note)]

    def nothing(self) -> list[dict[str, Any]]:
        """Leaves the files as they are."""
        return [txn("stream", self._number())]

    def _new_file(self) -> _Logical:
        pattern = self._draw(st.sampled_from(_NAMES + _MORE_NAMES))
        path = pattern.format(self._number())
        if not self._portable and self._draw(st.integers(0, 4)) == 0:
            path = "/elsewhere/" + path
        # One draw makes all rows: a draw for every cell takes most of a test's time and shrinks no better.
        dice = random.Random(self._draw(st.integers(0, 2**20)))  # noqa: S311 - no secret
        kinds = {field.physical: field.kind for field in self.schema.fields if isinstance(field.kind, str)}
        typed = {name: partition_value(kinds[name], dice) for name in self.schema.partitions}
        rows = [
            {name: value(kind, dice) for name, kind in self.schema.data.items()} | typed
            for _ in range(self._draw(st.integers(1, 4)))
        ]
        raw = {name: self._partition_text(cell) for name, cell in typed.items()}
        return _Logical(_DataFile(path, tuple(rows), raw))

    def _partition_text(self, value: Any) -> str | None:  # noqa: ANN401 - a value of any column type
        text = partition_text(value, self._zone, plain=self._portable or self._draw(st.booleans()))
        return "" if text is None and self._draw(st.booleans()) else text

    def _added(self, logical: _Logical) -> dict[str, Any]:
        path = logical.file.path
        self._live[path] = logical
        self._touched.add(path)
        return add(
            self._spelling(path),
            rows=logical.file.rows,
            deleted=logical.hidden,
            stats=self._statistics(logical),
            partition_values=logical.file.partition,
            dv=logical.vector,
            tags=self._draw(st.none() | st.just({"note": "ä b"})),
            size=self._draw(st.integers(1, 10**6)),
        )

    def _removed(self, path: str) -> dict[str, Any]:
        logical = self._live.pop(path)
        self._gone[path] = logical.file
        self._touched.add(path)
        return self._remove_action(logical)

    def _remove_action(self, logical: _Logical) -> dict[str, Any]:
        return remove(
            self._spelling(logical.file.path),
            dv=logical.vector,
            partition_values=logical.file.partition,
            extended=self._draw(st.booleans()),
        )

    def _statistics(self, logical: _Logical) -> dict[str, Any] | None:
        rows = logical.file.rows
        # A file with a deletion vector must say how many records it has.
        choices = ["all", "all", "some", "count", *([] if logical.vector else ["none"])]
        choice = "all" if self.complete else self._draw(st.sampled_from(choices))
        if choice == "none":
            return None
        if choice == "count":
            return {"numRecords": len(rows)}
        wide = self._draw(st.booleans())
        counted = rows if wide else [row for place, row in enumerate(rows) if place not in logical.hidden]
        stats = stats_of(
            counted,
            columns=self.schema.data,
            tight=False if wide else self._draw(st.sampled_from([None, True])),
            num_records=len(rows),
            habits=self._draw(_HABITS),
        )
        if wide:
            stats["nullCount"] = _estimated(stats["nullCount"], len(rows))
        if choice == "some":
            for part in ("minValues", "maxValues", "nullCount"):
                for name in self._draw(st.sets(st.sampled_from(sorted(self.schema.data)))):
                    stats[part].pop(name, None)
        return stats

    def _spelling(self, path: str) -> str:
        java = "".join(letter if not letter.isascii() else quote(letter, safe=_PLAIN_IN_JAVA) for letter in path)
        if self._portable:
            return java
        text = self._draw(st.sampled_from([java, quote(path, safe="/")]))
        return self._draw(st.sampled_from(["", "file:", "file://"])) + text if path.startswith("/") else text

    def _some(self, files: Mapping[str, object]) -> list[str]:
        free = sorted(path for path in files if path not in self._touched)
        return self._draw(st.lists(st.sampled_from(free), unique=True, min_size=1, max_size=2)) if free else []

    def _number(self) -> int:
        self._count += 1
        return self._count


def _estimated(counts: Mapping[str, Any], records: int) -> dict[str, Any]:
    """Gives null counts as wide statistics may have them: none and all are true, what lies between is a guess."""
    return {
        name: _estimated(count, records) if isinstance(count, dict) else records - 1 if 0 < count < records else count
        for name, count in counts.items()
    }

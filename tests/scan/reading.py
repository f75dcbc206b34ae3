"""What a scan answers, in a form that compares with the builder's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builder import canonical_path

from delta_sidecar import DeltaFile, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.builder import Key, TableBuilder

    from delta_sidecar.store import Store

STRATEGIES = ("reverse", "forward")


def scanner(table: TableBuilder, store: Store | None = None, **config: object) -> LazyDeltaScanner:
    return LazyDeltaScanner(table.root, LazyScanConfig(**config), store=store)


def scan(table: TableBuilder, store: Store | None = None, **config: object) -> list[DeltaFile]:
    return list(scanner(table, store, **config).scan_files())


def store_of(table: TableBuilder) -> Store:
    return open_store(table.root)


def key_of(file: DeltaFile) -> Key:
    vector = file.deletion_vector
    return canonical_path(file.raw_path), None if vector is None else vector.unique_id


def keys_of(files: Iterable[DeltaFile]) -> list[Key]:
    return sorted((key_of(file) for file in files), key=repr)


def agrees_with_model(table: TableBuilder, store: Store | None = None, **config: object) -> None:
    """Asserts that both strategies give the live files of the model, each once, with their sizes and statistics."""
    model = table.model_files(config.get("version"))
    expected = sorted(((key, add["size"], add.get("stats")) for key, add in model.items()), key=repr)
    for strategy in STRATEGIES:
        found = scan(table, store, strategy=strategy, **config)
        assert sorted(((key_of(f), f.size, f.stats) for f in found), key=repr) == expected, strategy

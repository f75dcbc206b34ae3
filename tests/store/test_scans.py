"""Whole scans of a table in each cloud."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tests.builder import TableBuilder, add, remove
from tests.scan.reading import agrees_with_model
from tests.store.credentials import Credential
from tests.store.google_server import GoogleServer

from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.azurite import Azurite
    from tests.moto_server import Moto

    from delta_sidecar.store import Store


def table_in(store: Store, folder: Path) -> TableBuilder:
    """Makes a table with a checkpoint and commits after it, and puts its log into a store."""
    table = TableBuilder(folder, partition_columns=["day"], schema={"id": "long", "day": "date"})
    days = [f"2026-02-{number:02}" for number in range(1, 25)]
    for day in days:
        table.commit([add(f"day={day}/a b%20c.parquet", partition_values={"day": day}, rows=[{"id": 1}])])
        if day == days[15]:
            table.checkpoint(kind="v2-parquet", sidecars=2)
    table.commit([remove(f"day={day}/a b%20c.parquet") for day in days[::5]])
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return table


def test_s3(moto: Moto, tmp_path: Path) -> None:
    store = open_store(f"s3://{moto.create_bucket()}/some/table", moto.options)
    agrees_with_model(table_in(store, tmp_path), store)


def test_google_cloud(tmp_path: Path) -> None:
    with GoogleServer() as server:
        store = open_store(f"gs://b{uuid.uuid4().hex}/some/table", server.options)
        agrees_with_model(table_in(store, tmp_path), store)


def test_azure_with_tokens(secure_azurite: Azurite, tmp_path: Path) -> None:
    credential = Credential()
    address = f"abfss://{secure_azurite.create_container()}/some/table"
    store = open_store(address, secure_azurite.secure_options, credential=credential)
    agrees_with_model(table_in(store, tmp_path), store)
    assert len(credential.asked) == 1


def test_an_older_version_in_s3(moto: Moto, tmp_path: Path) -> None:
    store = open_store(f"s3://{moto.create_bucket()}/some/table", moto.options)
    agrees_with_model(table_in(store, tmp_path), store, version=20)

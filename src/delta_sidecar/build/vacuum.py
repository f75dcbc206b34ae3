"""`vacuum_sidecars`: deletes metadata sidecars that no reader needs any more, and what builds left behind.

It lists the log, reads the manifests, asks a reader which metadata sidecars can be used, reads which files checkpoints
refer to, and only then deletes: manifests first and data files after them, so that wherever it is cut off no manifest
names a file that is gone. A reader that meets a missing metadata sidecar takes the next base; its answer is the same.

A file's age is counted up to the newest file of the log, or up to the clock of this machine where that is behind. So
a wrong clock makes files younger, never older, and a build that goes on elsewhere is safe.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import starmap
from typing import TYPE_CHECKING

from delta_sidecar.build.vacuum_evidence import Evidence
from delta_sidecar.build.vacuum_inventory import LogInventory
from delta_sidecar.build.vacuum_references import read_references
from delta_sidecar.build.vacuum_requests import Requests
from delta_sidecar.build.vacuum_rules import Decision, Terms, decide
from delta_sidecar.build.vacuum_summary import MOST_UNKNOWN, DeletedFile, VacuumSummary
from delta_sidecar.errors import OptionError, TableNotFoundError
from delta_sidecar.events import Events, VacuumEnded
from delta_sidecar.execute import LocalExecutor
from delta_sidecar.log.names import LOG_FOLDER, SIDECAR_FOLDER
from delta_sidecar.plan import ListFiles, StateMachineIterator
from delta_sidecar.replay.opening import Opening
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.sidecar.names import SidecarFileKind
from delta_sidecar.store import ObjectMeta, RequestLog, open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from delta_sidecar.build.vacuum_inventory import FolderFile
    from delta_sidecar.events import Listener
    from delta_sidecar.store import Store, TokenCredential

DEFAULT_KEEP = 2
DEFAULT_RETENTION = timedelta(days=7)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def vacuum_sidecars(
    table_url: str | os.PathLike[str],
    *,
    keep: int = DEFAULT_KEEP,
    retention: timedelta = DEFAULT_RETENTION,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    store: Store | None = None,
    credential: TokenCredential | None = None,
    listeners: Iterable[Listener] = (),
) -> VacuumSummary:
    """Deletes metadata sidecars that no reader needs any more, and what builds left behind.

    Files of Delta's own are never touched, V2-checkpoint sidecars whatever their names neither. Another run goes on
    where one was cut off.

    Args:
        table_url: A path or an address.
        keep: So many of the newest metadata sidecars that can be used stay; at least one.
        retention: Nothing younger is deleted. It has to be longer than a build takes.
        dry_run: Only say what would be deleted.
        storage_options: Credentials and settings, as object_store names them.
        store: A store to use instead of the one that the address names.
        credential: For Azure, an object that gives tokens, such as one of azure-identity's.
        listeners: Each is told what happens, as the events of `delta_sidecar.events`.

    Raises:
        TableNotFoundError: There is no Delta table.
        DeltaProtocolError: The table asks its readers for more than this library can do.
        LogCorruptionError: The table cannot be read, so that it cannot be told what it needs.
        OptionError: The address or an option is not valid.
        StorageError: The store is out of reach, or refuses to delete; an `AuthenticationError` where it refused the
            credentials.
    """
    _check(keep, retention)
    store = store if store is not None else open_store(table_url, storage_options, credential=credential)
    run = _Vacuum(store, Events(listeners), keep, retention, dry_run=dry_run)
    return run.run()


class _Vacuum:
    """One clean-up under way."""

    def __init__(self, store: Store, events: Events, keep: int, retention: timedelta, *, dry_run: bool) -> None:
        self._log = RequestLog()
        self._store = store.bind(self._log)
        self._events = events
        self._keep = keep
        self._retention = retention
        self._dry_run = dry_run
        self._deleted: list[FolderFile] = []
        self._unknown = 0

    def run(self) -> VacuumSummary:
        begun = time.monotonic()
        failure: BaseException | None = None
        try:
            with closing(LocalExecutor(self._store)) as executor, closing(Requests()) as requests:
                inventory = self._inventory(executor)
                terms = self._terms(inventory)
                decision = self._decision(inventory, terms, executor, requests)
                if not self._dry_run:
                    decision = self._carried_out(decision, inventory, executor, requests)
                return self._summary(terms, decision, inventory)
        except BaseException as error:
            failure = error
            raise
        finally:
            self._log.cancel()
            self._tell(failure, 1000 * (time.monotonic() - begun))

    def _inventory(self, executor: LocalExecutor) -> LogInventory:
        inventory = _listed(executor, LOG_FOLDER)
        if inventory.latest < 0:
            msg = f"{self._store.url} is not a Delta table: there is no commit and no checkpoint in its _delta_log"
            raise TableNotFoundError(msg)
        return inventory

    def _terms(self, inventory: LogInventory) -> Terms:
        as_of = min(inventory.newest_time, (_now() - _EPOCH) // _MILLISECOND)
        return Terms(self._keep, self._retention // _MILLISECOND, as_of)

    def _decision(self, inventory: LogInventory, terms: Terms, executor: LocalExecutor, requests: Requests) -> Decision:
        # A table that cannot be read by Delta's own files, or not by this library, may need ours in unknown ways.
        # All of the log is listed, for what proves an old metadata sidecar is as old.
        opening = Opening(self._store.url, speculation=0, sidecars=False, listed_from=-1)
        snapshot = StateMachineIterator(open_snapshot(opening), executor).run_to_terminal()
        evidence = Evidence(self._store, requests, executor, snapshot)
        checkpoints = inventory.checkpoints
        return decide(inventory, evidence, lambda names: read_references(executor, checkpoints, names), terms)

    def _carried_out(
        self, decision: Decision, inventory: LogInventory, executor: LocalExecutor, requests: Requests
    ) -> Decision:
        """Deletes the files, and gives what was done."""
        for _ in requests.each(self._delete, [file for file, _ in decision.manifests]):
            pass
        if not decision.files:
            return decision
        # A build may take a data file of an earlier one that broke off, and name it now.
        there = _listed(executor, SIDECAR_FOLDER).of_kind(SidecarFileKind.MANIFEST)
        built = {file.version for file in there if inventory.ours.get(file.name) != file}
        files = [(file, reason) for file, reason in decision.files if file.version not in built]
        # All manifests are gone before the first file that one of them named.
        for _ in requests.each(self._delete, [file for file, _ in files]):
            pass
        notes = [f"Version {version} was built meanwhile: its files stay." for version in sorted(built)]
        return replace(decision, files=files, notes=[*decision.notes, *notes])

    def _summary(self, terms: Terms, decision: Decision, inventory: LogInventory) -> VacuumSummary:
        self._unknown = len(decision.unknown) + inventory.more_strangers
        going = [*decision.manifests, *decision.files]
        if self._dry_run:
            self._deleted = [file for file, _ in going]
        return VacuumSummary(
            table=self._store.url,
            dry_run=self._dry_run,
            keep=self._keep,
            retention=self._retention,
            as_of=_moment(terms.as_of),
            deleted=tuple(
                DeletedFile(
                    path=file.path,
                    size=file.size,
                    last_modified=_moment(file.last_modified),
                    age=(terms.as_of - file.last_modified) * _MILLISECOND,
                    reason=reason,
                )
                for file, reason in going
            ),
            kept=tuple(decision.kept),
            waiting=decision.waiting,
            referred=decision.referred,
            unknown=tuple(decision.unknown[:MOST_UNKNOWN]),
            unknown_count=self._unknown,
            notes=tuple(decision.notes),
            requests=self._log.snapshot().requests,
        )

    def _delete(self, file: FolderFile) -> None:
        self._store.delete(file.path)
        self._deleted.append(file)

    def _tell(self, failure: BaseException | None, milliseconds: float) -> None:
        counts = self._log.snapshot()
        is_error = isinstance(failure, Exception)
        self._events(
            VacuumEnded(
                table=self._store.url,
                outcome="complete" if failure is None else "failed" if is_error else "stopped",
                error=type(failure).__name__ if is_error else None,
                milliseconds=milliseconds,
                dry_run=self._dry_run,
                files_deleted=len(self._deleted),
                bytes_deleted=sum(file.size for file in self._deleted),
                files_unknown=self._unknown,
                requests=counts.requests,
                bytes=counts.bytes,
                trips=counts.trips,
            )
        )


def _check(keep: object, retention: object) -> None:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        msg = f"keep must be a whole number from 1 on, not {keep!r}"
        raise OptionError(msg)
    if not isinstance(retention, timedelta) or retention < timedelta():
        msg = f"retention must be a span of time, zero or more, not {retention!r}"
        raise OptionError(msg)


def _listed(executor: LocalExecutor, folder: str) -> LogInventory:
    inventory = LogInventory()
    with closing(executor.execute(ListFiles(folder))) as pages:
        for page in pages:
            inventory.add_all(starmap(ObjectMeta, zip(*(column.to_pylist() for column in page), strict=True)))
    return inventory


def _now() -> datetime:
    return datetime.now(UTC)


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND

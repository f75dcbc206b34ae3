"""Opening a table where a configuration says: at a version, at a time, or where a page token stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from delta_sidecar.errors import MissingCommitError, PageTokenExpiredError, TableNotFoundError, VersionNotFoundError
from delta_sidecar.plan import StateMachineIterator
from delta_sidecar.replay.opening import pin_version
from delta_sidecar.replay.snapshot import open_snapshot
from delta_sidecar.replay.time_travel import milliseconds, version_at

if TYPE_CHECKING:
    from delta_sidecar.execute import LocalExecutor
    from delta_sidecar.log.segment import LogSegment
    from delta_sidecar.replay.opening import Opening
    from delta_sidecar.replay.snapshot import Snapshot
    from delta_sidecar.scan.config import LazyScanConfig


def pinned(opening: Opening, config: LazyScanConfig, executor: LocalExecutor) -> Opening:
    """The same opening, at the version of the time that is asked for where there is one."""
    if not isinstance(config.timestamp, datetime):
        return opening
    search = version_at(opening, milliseconds(config.timestamp))
    return replace(opening, version=StateMachineIterator(search, executor).run_to_terminal())


def list_table(opening: Opening, config: LazyScanConfig, executor: LocalExecutor) -> LogSegment:
    """Lists the log of a table up to the version that is asked for; nothing of the table is read."""
    return StateMachineIterator(pin_version(pinned(opening, config, executor)), executor).run_to_terminal()


def open_table(opening: Opening, config: LazyScanConfig, executor: LocalExecutor) -> Snapshot:
    """Opens a table.

    Raises:
        PageTokenExpiredError: What the page token points to is gone.
    """
    token = config.token
    if token is None:
        return StateMachineIterator(open_snapshot(pinned(opening, config, executor)), executor).run_to_terminal()
    opening = replace(opening, version=token.version, listed_from=token.base_version)
    try:
        snapshot = StateMachineIterator(open_snapshot(opening), executor).run_to_terminal()
    except (TableNotFoundError, VersionNotFoundError, MissingCommitError) as error:
        msg = f"{opening.table}: version {token.version}, which the page token is for, is gone: {error}"
        raise PageTokenExpiredError(msg) from error
    return replace(snapshot, choice=token.choice(snapshot))

"""Whose turn it is: which of several pipelines on a table makes the checkpoint and the metadata sidecar of a version.

    10  OPTIMIZE           the version that is due
    11  pipeline a         the first commit of a pipeline from there on: its turn
    12  pipeline b         leaves it to a
    ...
    17  pipeline b         later than 11 by the lease: b's turn, where it still has not been made

Pipelines mark their commits, and say in the mark how often they make checkpoints: one that never does, or does so at
other versions, is nobody to wait for. All read the same commits, with times by the store's clock, and come to the same
answer without asking one another. Should two do the work all the same, both make the same, and nothing is lost but
time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from delta_sidecar.errors import ObjectNotFoundError
from delta_sidecar.log.names import commit_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from delta_sidecar.store import Store

# A pipeline's commit begins with its `commitInfo`.
_HEAD_BYTES = 64 << 10
_KEY, _PIPELINE, _INTERVAL, _WRITE, _BATCH = "deltaSidecar", "pipeline", "interval", "write", "batch"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit says of the pipeline that made it.

    Attributes:
        pipeline: The pipeline's app id.
        interval: How many versions lie between two that it makes checkpoints of; 0 where it makes none, None where it
            does not say.
        batch: The batch's id; None where it has none.
    """

    pipeline: str
    interval: int | None = None
    batch: int | None = None

    def may_see_to(self, due: int, version: int) -> bool:
        """Whether the pipeline looks after a version, by its commit of this or a later one."""
        if self.interval is None:
            return True
        return self.interval > 0 and version - version % self.interval == due


@dataclass(frozen=True, slots=True)
class Turn:
    """A commit of a pipeline, by which it may be its turn.

    Attributes:
        version: The commit's version.
        time: When it was written, in milliseconds since the epoch.
        pipeline: The pipeline's app id.
    """

    version: int
    time: int
    pipeline: str


def pipeline_mark(
    app_id: str, interval: int | None = None, *, write: str | None = None, batch: int | None = None
) -> str:
    """What a pipeline puts into its commits as `userMetadata`.

    Args:
        app_id: Whose commit it is.
        interval: How many versions lie between two that the pipeline makes checkpoints of; 0 where it makes none.
        write: Which write it is: a text that no other write has.
        batch: The batch's id.
    """
    told = {_PIPELINE: app_id, _INTERVAL: interval, _WRITE: write, _BATCH: batch}
    known = {name: value for name, value in told.items() if value is not None}
    return json.dumps({_KEY: known}, separators=(",", ":"))


def mark_in(store: Store, version: int) -> Mark | None:
    """The mark in a commit; None where it has none, or is gone."""
    try:
        return _mark(bytes(store.get(commit_path(version), max_bytes=_HEAD_BYTES).data))
    except ObjectNotFoundError:
        return None


def is_batch_there(store: Store, newest: int, app_id: str, batch: int) -> bool | None:
    """Whether a batch was written whose id is below the highest one: looks back for its commit, as far as the log goes.

    Args:
        store: The table's store.
        newest: The newest version.
        app_id: Whose batch ids they are.
        batch: The batch's id.

    Returns:
        False where it was passed over; None where the log does not reach back far enough to tell.
    """
    for version in range(newest, -1, -1):
        try:
            mark = _mark(bytes(store.get(commit_path(version), max_bytes=_HEAD_BYTES).data))
        except ObjectNotFoundError:
            return None
        if mark is not None and mark.pipeline == app_id and mark.batch is not None and mark.batch <= batch:
            return mark.batch == batch
    return False


def _mark(beginning: bytes) -> Mark | None:
    for line in beginning.splitlines():
        found: Any = line
        for key in ("commitInfo", "userMetadata", _KEY):
            found = _member(found, key)
        pipeline, interval, batch = (_member(found, key) for key in (_PIPELINE, _INTERVAL, _BATCH))
        if isinstance(pipeline, str):
            return Mark(pipeline, *(each if isinstance(each, int) else None for each in (interval, batch)))
    return None


def whose_turn(commits: Iterable[Turn], lease: int) -> Turn | None:
    """Whose turn it is; None where no pipeline has come by.

    Args:
        commits: The commits from the version that is due on whose pipelines look after it, in order.
        lease: Milliseconds after which the turn passes on to the next that comes by.
    """
    holder = None
    for commit in commits:
        if holder is None or commit.time - holder.time >= lease:
            holder = commit
    return holder


def _member(value: object, key: str) -> object:
    """A member of an object, which may be JSON still; None where there is none."""
    if isinstance(value, bytes | str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value.get(key) if isinstance(value, dict) else None

"""A table whose commits come from pipelines and others, and triggers whose two steps need no Spark."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tests.builder import TableBuilder, add

from delta_sidecar import build_sidecar
from delta_sidecar.spark import trigger
from delta_sidecar.spark.commits import pipeline_mark
from delta_sidecar.spark.trigger import CheckpointTrigger
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from delta_sidecar.build import BuildSummary

INTERVAL = 4
NOW = 1_790_000_000


@dataclass
class TriggeredTable:
    """A table that remembers what its triggers made.

    Attributes:
        builder: The table.
        made: What was made, in order: `checkpoint 4`, `sidecar 4`.
        broken: What fails instead: `checkpoint` or `sidecar`.
        seconds: The time of the newest commit, by the store's clock.
    """

    builder: TableBuilder
    made: list[str] = field(default_factory=list)
    broken: str = ""
    seconds: float = NOW

    @property
    def root(self) -> Path:
        return self.builder.root

    def commit(self, pipeline: str | None = None, *, later: float = 1.0, interval: int | None = None) -> int:
        """A commit of a pipeline, or of somebody else; so many seconds after the one before."""
        info: dict[str, Any] = {"operation": "WRITE"}
        if pipeline is not None:
            info["userMetadata"] = pipeline_mark(pipeline, interval)
        version = self.builder.commit([{"commitInfo": info}, add(f"file-{self.builder.version + 1}")])
        self.seconds += later
        os.utime(self.builder.commit_path(version), (self.seconds, self.seconds))
        return version

    def commits(self, *pipelines: str | None) -> int:
        """Several, the newest of which is given."""
        return [self.commit(pipeline) for pipeline in pipelines][-1]

    def trigger(self, app_id: str, **options: Any) -> CheckpointTrigger:  # noqa: ANN401 - any option
        return CheckpointTrigger(
            cast("SparkSession", None),
            self.root,
            options.pop("store", None) or open_store(self.root),
            INTERVAL,
            **{"app_id": app_id, "build_options": {"threads": 1}} | options,
        )

    def checkpoint(self, version: int, **options: Any) -> None:  # noqa: ANN401 - any option
        """Writes a checkpoint of any version, as Delta does."""
        then = TableBuilder(self.root)
        then.commits = self.builder.commits[: version + 1]
        then.checkpoint(**options)

    def make_checkpoint(self, _spark: object, url: str, version: int) -> None:
        assert url == f"file://{self.root}"
        if self.broken == "checkpoint":
            # Delta only logs it.
            return
        self.checkpoint(version)
        self.made.append(f"checkpoint {version}")

    def make_sidecar(self, _spark: object, url: Path, *, version: int, **options: Any) -> BuildSummary:  # noqa: ANN401
        if self.broken == "sidecar":
            msg = "An error occurred while calling o1.build.\n: java.io.IOException: sig=abcdef refused\n\tat x"
            raise RuntimeError(msg)
        assert options["store"].url == str(url)
        summary = build_sidecar(url, version=version, **options)
        self.made.append(f"sidecar {version}")
        return summary


def triggered_table(root: Path, monkeypatch: pytest.MonkeyPatch) -> TriggeredTable:
    """A table with its first commit."""
    table = TriggeredTable(TableBuilder(root))
    monkeypatch.setattr(trigger.delta_log, "checkpoint", table.make_checkpoint)
    monkeypatch.setattr(trigger, "build_sidecar", table.make_sidecar)
    table.commit()
    return table


def hint_of(root: Path) -> int:
    """The version that `_last_checkpoint` names."""
    version: int = json.loads((root / "_delta_log" / "_last_checkpoint").read_text())["version"]
    return version

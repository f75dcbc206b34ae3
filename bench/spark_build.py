"""The build of a metadata sidecar on Spark, beside the one on this machine.

Spark runs as a cluster of its own on this machine (local-cluster), one core an executor, so that the driver's memory is
the driver's alone. On one machine it has no more cores than the local build, and pays for being spread out: it is for
tables whose log is larger than one machine likes.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measure import ROOT, measured
from bench.questions import WrongAnswerError
from bench.readers.ours import NAME
from bench.readers.spark import peak_of_jvm
from bench.results import Run, measurement
from bench.shapes import CACHE, Shape, built, link, table, warm
from delta_sidecar.log.names import SIDECAR_FOLDER, manifest_name
from delta_sidecar.sidecar.manifest import decode_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.measure import Measurement


def measurements(
    progress: Callable[[str], object],
    *,
    files: Sequence[int] = (1_000_000,),
    master: str | None = None,
    cache: Path = CACHE,
) -> Iterator[dict[str, Any]]:
    """Measures both builds of some tables, once each.

    Args:
        progress: Is told what goes on.
        files: Sizes of the tables.
        master: The cluster; None for one of this machine.
        cache: Where tables are kept.

    Raises:
        WrongAnswerError: The sidecars of a table differ.
    """
    master = master or f"local-cluster[{os.cpu_count() or 2},1,4096]"
    for shape in map(Shape, files):
        made = table(shape, cache, sidecar=False)
        warm(made)
        version = made.log.checkpoint_version or 0
        path = cache / f"{shape.folder('checkpoint')}-built"
        link(made.path, path)
        kinds = set()
        for variant in ("local", "on Spark"):
            progress(f"build, {shape.words}: {variant}")
            shutil.rmtree(path / SIDECAR_FOLDER, ignore_errors=True)
            if variant == "local":
                done = measured(built, table=str(path), version=version)
            else:
                done = measured(built_on_spark, table=str(path), version=version, master=master)
            manifest = decode_manifest((path / SIDECAR_FOLDER / manifest_name(version)).read_bytes(), version=version)
            kinds.add((manifest.schema_hash, manifest.num_files))
            yield _measurement(shape, variant, done)
        if len(kinds) > 1 or {count for _, count in kinds} != {shape.files}:
            msg = f"the sidecars of {path} are not of all files, or differ: {kinds}"
            raise WrongAnswerError(msg)


def built_on_spark(table: str, version: int, master: str) -> Callable[[], dict[str, Any]]:
    """Builds the metadata sidecar of a table on Spark, to be measured."""
    from delta_sidecar.spark import build_sidecar, spark_session

    settings = {"spark.jars.ivy": str(ROOT / ".cache" / "ivy"), "spark.driver.memory": "1g"}
    spark = spark_session(name="bench", master=master, settings=settings)
    spark.range(10).groupBy("id").count().collect()

    def work() -> dict[str, Any]:
        summary = build_sidecar(spark, table, version=version)
        return {"bytes": summary.bytes, "manifest_bytes": summary.manifest_bytes, "driver_bytes": peak_of_jvm(spark)}

    return work


def _measurement(shape: Shape, variant: str, done: Measurement) -> dict[str, Any]:
    answer = done.answer
    run = Run(seconds=done.seconds, cpu_seconds=done.cpu_seconds, peak_bytes=done.peak_bytes)
    found: dict[str, Any] = msgspec.to_builtins(
        measurement(
            [run],
            suite="build",
            shape=shape.words,
            files=shape.files,
            tail=shape.tail,
            stats_columns=shape.stats_columns,
            base="checkpoint",
            question="full build",
            reader=NAME,
            variant=variant,
            extra={
                "sidecar_bytes": answer["bytes"] + answer["manifest_bytes"],
                **({"driver_bytes": answer["driver_bytes"]} if "driver_bytes" in answer else {}),
            },
        )
    )
    return found

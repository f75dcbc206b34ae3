"""A cloud that can be felt: each request takes 30 ms more, and 50 MB come in a second, for every reader alike.

The cloud is Azurite on this machine, with `bench.slow_network` in front. Every reader starts cold, in a process of its
own; what it asks for is counted by the network, not by the reader.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from bench.logs import FIRST_FILE, LAST_HOUR, made_log, measurement, run
from bench.measure import measured
from bench.slow_network import slow_network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from bench.slow_network import SlowNetwork
    from delta_sidecar.events import Event
    from delta_sidecar.synth import TelemetryLog

DELAY, BYTES_PER_SECOND = 0.03, 50e6
OURS, DELTALAKE = "delta-sidecar", "deltalake"


class WrongAnswerError(Exception):
    """A reader's answer is not true, so its time means nothing."""


def measurements(
    progress: Callable[[str], object], *, files: Sequence[int] = (100_000, 1_000_000), rounds: int = 3
) -> Iterator[dict[str, Any]]:
    """Measures readers of the same logs in a cloud.

    Args:
        progress: Is told what is done, in words.
        files: Sizes of the logs.
        rounds: In each of them every reader has one turn.

    Raises:
        WrongAnswerError: A reader has found other files than there are.
    """
    from tests import azurite

    for count in files:
        made = made_log(count)
        with azurite.running() as cloud, slow_network(cloud.endpoint, DELAY, BYTES_PER_SECOND) as network:
            container = cloud.create_container()
            for base, folder in (("checkpoint", made.checkpoint), ("sidecar", made.sidecar)):
                progress(f"uploading {count:,} files with a {base}")
                upload(folder, f"az://{container}/{base}", {**cloud.options, "allow_http": "true"})
            options = {**cloud.options, "endpoint": network.address, "allow_http": "true"}
            yield from _measured(made.log, f"az://{container}", options, network, progress, rounds)


def _measured(
    log: TelemetryLog,
    address: str,
    options: dict[str, str],
    network: SlowNetwork,
    progress: Callable[[str], object],
    rounds: int,
) -> Iterator[dict[str, Any]]:
    newest = list(log.live_paths(log.newest_hour))
    # deltalake has its first file when it has all: its runs are those of both questions.
    cases = [(OURS, base, question) for base in ("sidecar", "checkpoint") for question in (FIRST_FILE, LAST_HOUR)]
    cases.append((DELTALAKE, "checkpoint", LAST_HOUR))
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = {case: [] for case in cases}
    for number in range(rounds):
        for case in cases:
            reader, base, question = case
            progress(f"{log.files:,} files in a cloud, round {number + 1}: {question}, {reader}, {base}")
            network.requests = network.bytes = 0
            place = {"table": f"{address}/{base}", "options": options}
            if reader == DELTALAKE:
                done = measured(deltalake, **place, hour=log.newest_hour)
            else:
                hour = f"_event_hour = '{log.newest_hour}'"
                done = measured(ours, **place, predicate=None if question == FIRST_FILE else hour)
                if question == LAST_HOUR and (done.answer["tier"] == 1) != (base == "sidecar"):
                    msg = f"the {base} was not used"
                    raise WrongAnswerError(msg)
            what = f"{question} by {reader}, {base}"
            check_answer(what, done.answer, newest, limit=1 if question == FIRST_FILE else None)
            counted = {"requests": network.requests, "bytes": network.bytes}
            runs[case].append(run(done.seconds, done.peak_bytes, {**done.answer, **counted}))
    for (reader, base, question), found in runs.items():
        extra = {"delay_seconds": network.delay, "bytes_per_second": network.bytes_per_second}
        for asked in [question] if reader == OURS else [FIRST_FILE, LAST_HOUR]:
            yield measurement(
                found,
                suite="cloud",
                files=log.files,
                base=base,
                question=asked,
                reader=reader,
                files_found=1 if asked == FIRST_FILE else len(newest),
                extra=extra,
            )


def ours(table: str, options: dict[str, str], predicate: str | None) -> Callable[[], dict[str, Any]]:
    """This library: the files of a predicate, or the first file that it finds."""
    from delta_sidecar import LazyDeltaScanner, LazyScanConfig
    from delta_sidecar.events import ScanEnded

    config = LazyScanConfig(predicate=predicate, limit=1 if predicate is None else None)
    bases: list[int | None] = []

    def listen(event: Event) -> None:
        if isinstance(event, ScanEnded):
            bases.append(event.sidecar_tier)

    def work() -> dict[str, Any]:
        started, before, first = time.perf_counter(), time.process_time(), None
        paths: list[str] = []
        with LazyDeltaScanner(table, config, storage_options=options, listeners=[listen]) as scanner:
            for batch in scanner.scan_batches(["path", "size", "modification_time", "partition_values"]):
                first = first or time.perf_counter() - started
                paths += batch["path"].to_pylist()
            requests = scanner.metrics.requests
        return {
            "first_seconds": first,
            "cpu_seconds": time.process_time() - before,
            "requests": requests.requests,
            "bytes": requests.bytes,
            "trips": requests.trips,
            "tier": bases[-1],
            **_answer(paths),
        }

    return work


def deltalake(table: str, options: dict[str, str], hour: str) -> Callable[[], dict[str, Any]]:
    """deltalake: loads the table, then lists the files of an hour."""
    from deltalake import DeltaTable

    def work() -> dict[str, Any]:
        before = time.process_time()
        partition = [("_event_hour", "=", hour)]
        uris = DeltaTable(table, storage_options=options).file_uris(partition_filters=partition)
        spent = time.process_time() - before
        return {"cpu_seconds": spent, **_answer(uri[uri.index("_event_hour=") :] for uri in uris)}

    return work


def _answer(paths: Iterable[str]) -> dict[str, Any]:
    found = sorted(paths)
    return {"files": len(found), "paths": _digest(found), "first_path": found[0] if found else None}


def _digest(paths: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()


def check_answer(what: str, answer: dict[str, Any], newest: Sequence[str], limit: int | None = None) -> None:
    """Compares what a reader has found with the files of the newest hours.

    Raises:
        WrongAnswerError: It has found others, or more than its limit, or none.
    """
    if limit is None:
        right = (answer["files"], answer["paths"]) == (len(newest), _digest(newest))
    else:
        # The newest commit adds to the newest hour.
        right = answer["files"] == limit and answer["first_path"] in newest
    if not right:
        msg = f"{what}: {answer}"
        raise WrongAnswerError(msg)


def upload(folder: Path, address: str, options: dict[str, str]) -> None:
    """Puts the files of a folder where an address says."""
    from delta_sidecar.store import open_store

    store = open_store(address, options)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put_file(path.relative_to(folder).as_posix(), str(path))

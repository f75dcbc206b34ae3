"""Telemetry of a few machines, as JSON files that arrive one after the other.

    python examples/telemetry/generate.py ./arriving --files 60 --pause 1

Each file holds ten minutes of readings, and a few late ones from up to three hours earlier.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTES_PER_FILE = 10
SCHEMA = "event_ts TIMESTAMP, device_id STRING, temperature DOUBLE, pressure DOUBLE, status STRING"

_DEVICES = 40
_READINGS_PER_FILE = 400
_LATE = 0.03


def readings(number: int, start: dt.datetime) -> Iterator[dict[str, Any]]:
    """The readings of one file; the same ones whenever it is asked for."""
    chance = random.Random(number)  # noqa: S311 - made-up readings, no secrets
    begin = start + dt.timedelta(minutes=MINUTES_PER_FILE * number)
    for _ in range(_READINGS_PER_FILE):
        moment = begin + dt.timedelta(minutes=MINUTES_PER_FILE) * chance.random()
        if chance.random() < _LATE:
            moment -= dt.timedelta(hours=3) * chance.random()
        device = chance.randrange(_DEVICES)
        yield {
            "event_ts": moment.isoformat(timespec="milliseconds"),
            "device_id": f"machine-{device:03}",
            "temperature": round(chance.gauss(40 + device / 4, 3), 2),
            "pressure": round(chance.gauss(1013, 8), 1),
            "status": "alarm" if chance.random() < 0.01 else "ok",  # noqa: PLR2004 - one in a hundred
        }


def write_file(folder: Path, number: int, start: dt.datetime) -> Path:
    """Writes one file so that whoever watches the folder sees it whole or not at all."""
    path = folder / f"readings-{number:05}.json"
    draft = folder / f".{path.name}"
    draft.write_text("".join(f"{json.dumps(reading)}\n" for reading in readings(number, start)))
    return draft.rename(path)


def main() -> None:
    """Writes files, with a pause after each."""
    parser = argparse.ArgumentParser(description="Telemetry of a few machines, as JSON files that arrive over time.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=60, help="how many (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between them (default: %(default)s)")
    parser.add_argument("--start", type=dt.datetime.fromisoformat, default="2026-02-10T20:00:00+00:00")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.files):
        print(write_file(arguments.folder, number, arguments.start))
        time.sleep(arguments.pause)


if __name__ == "__main__":
    main()

"""The command as a process among others: pipes, signals, exit codes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pytest
from tests.builder import TableBuilder, add
from tests.cli.tables import TELEMETRY

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = [sys.executable, "-m", "delta_sidecar.cli"]
PATIENCE = 60


def test_the_installed_command_is_the_same() -> None:
    installed = [str(Path(sys.executable).with_name("delta-sidecar"))]
    assert subprocess.run([*installed, "--version"], check=True, capture_output=True).stdout == (
        subprocess.run([*COMMAND, "--version"], check=True, capture_output=True).stdout
    )


@pytest.mark.parametrize("flags", [["--help"], ["--version"], ["files", "--help"], ["files"]])
def test_who_asks_for_help_does_not_wait_for_anything_heavy(flags: list[str]) -> None:
    code = (
        "import sys; from delta_sidecar.cli import main\n"
        f"try: main.main({flags!r})\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in run.stderr.split()}
    assert "click" in loaded
    assert not {"pyarrow", "numpy", "pandas", "rich", "sqlglot", "obstore"} & loaded


def test_a_pipe_gets_data_only(telemetry: Path) -> None:
    run = subprocess.run([*COMMAND, "files", telemetry], check=True, capture_output=True)
    assert len(run.stdout.splitlines()) == TELEMETRY.live_files
    assert run.stderr == b""


@pytest.mark.full
@pytest.mark.parametrize("output", ["text", "json", "arrow"])
def test_a_reader_that_goes_away_ends_it_quietly(telemetry: Path, output: str) -> None:
    with started("files", telemetry, "--output", output) as process:
        assert process.stdout is not None
        assert process.stdout.read(100)
        process.stdout.close()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
        assert error_text(process) == b""


@pytest.mark.parametrize("output", ["text", "arrow"])
def test_an_interrupt_while_nobody_reads(telemetry: Path, output: str) -> None:
    with started("files", telemetry, "--output", output) as process:
        assert process.stdout is not None
        # The pipe fills up, and the command waits in a write.
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert error_text(process) == b""


@pytest.mark.full
@pytest.mark.parametrize("silent_on", [b"_last_checkpoint", b"comp=list"])
def test_an_interrupt_while_a_store_does_not_answer(silent_on: bytes) -> None:
    with SilentStore(silent_on) as store, started("files", "az://lake/table", *store.flags) as process:
        assert store.asked.wait(PATIENCE)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert error_text(process) == b""


def test_a_limit_does_not_wait_for_requests_that_nobody_needs(telemetry: Path) -> None:
    with started("files", telemetry, "--limit", "1") as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out.count(b"\n"), err) == (0, 1, b"")


def test_a_full_disk_is_an_error(telemetry: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("wb") as out:
        run = subprocess.run([*COMMAND, "files", telemetry], check=False, stdout=out, stderr=subprocess.PIPE)
    assert run.returncode == 1
    assert run.stderr.startswith(b"error: the output cannot be written")
    assert b"Traceback" not in run.stderr


def test_an_arrow_stream_that_fails_does_not_look_whole(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path)
    table.commit([add("a.parquet")])
    table.commit([add(f"{number}.parquet") for number in range(3)])
    table.commit_path(0).write_bytes(table.commit_path(0).read_bytes() + b'{"add":{"pa')
    run = subprocess.run([*COMMAND, "files", tmp_path, "--output", "arrow"], check=False, capture_output=True)
    assert run.returncode == 1
    with pytest.raises((pa.ArrowInvalid, OSError)), pa.ipc.open_stream(run.stdout) as reader:
        reader.read_all()


@contextlib.contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process that is gone afterwards."""
    # With the development mode's tracebacks of threads that were left behind.
    environment = os.environ | {"PYTHONDEVMODE": "1"}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def error_text(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stderr is not None
    return process.stderr.read()


class SilentStore:
    """A blob service that has nothing, and never answers one kind of request."""

    def __init__(self, silent_on: bytes) -> None:
        self.asked = threading.Event()
        self._silent_on = silent_on
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []

    @property
    def flags(self) -> list[str]:
        options = {
            "endpoint": f"http://127.0.0.1:{self._socket.getsockname()[1]}/account",
            "account_name": "account",
            "account_key": "Z2VoZWlt",
        }
        return [part for key, value in options.items() for part in ("--storage-option", f"{key}={value}")]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._connections.append(connection)
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            request = b""
            while received := connection.recv(65_536):
                request += received
                if not request.endswith(b"\r\n\r\n"):
                    continue
                if self._silent_on in request:
                    self.asked.set()
                    return
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                request = b""

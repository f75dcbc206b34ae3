"""Secrets that work, and such that don't: nothing that a scan, its events, its log or the command say holds one."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import traceback
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest
from click.testing import CliRunner
from tests.store.credentials import Credential
from tests.store.test_scans import table_in

from delta_sidecar import DeltaSidecarError, LazyDeltaScanner, LazyScanConfig
from delta_sidecar.cli import main
from delta_sidecar.events import Event, JsonLines
from delta_sidecar.health import inspect_table
from delta_sidecar.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.azurite import Azurite
    from tests.moto_server import Moto

WRONG = "bm90LXRoZS1yaWdodC1rZXktYXQtYWxsLTEyMzQ1Njc4OTA="


class Listening:
    """Does everything that can be done with a table and keeps every word of it."""

    def __init__(self, address: str, options: Mapping[str, str] | None, credential: object = None) -> None:
        self.address = address
        self.options = dict(options or {})
        self.credential = credential
        self.texts: list[str] = []

    def everything(self) -> str:
        stream, lines = io.StringIO(), io.StringIO()
        handlers = [logging.StreamHandler(stream), logging.StreamHandler(lines)]
        handlers[1].setFormatter(JsonLines())
        root, level = logging.getLogger(), logging.getLogger().level
        root.setLevel(logging.DEBUG)
        try:
            for handler in handlers:
                root.addHandler(handler)
            self._scan(LazyScanConfig(limit=3))
            self._scan(LazyScanConfig(predicate="day >= '2026-02-03'", strict=True, retention_guard=True))
            self._scan(LazyScanConfig(version=99))
            self._scan(LazyScanConfig(predicate="nothing = 1"))
            if self.credential is None:
                self._commands()
        finally:
            for handler in handlers:
                root.removeHandler(handler)
            root.setLevel(level)
        return "\n".join([*self.texts, stream.getvalue(), lines.getvalue()])

    def _scan(self, config: LazyScanConfig) -> None:
        events: list[Event] = []
        with self._errors():
            scanner = LazyDeltaScanner(
                self.address,
                config,
                storage_options=self.options,
                credential=self.credential,  # type: ignore[arg-type]
                listeners=[events.append],
            )
            self._keep(repr(scanner), str(scanner), repr(scanner._store), repr(scanner._run.__dict__))
            for step in (scanner.snapshot, lambda: list(scanner.scan_files()), lambda: scanner.explain(analyze=True)):
                with self._errors():
                    self._keep(repr(step()))
            with self._errors():
                self._keep(repr(scanner.estimate()))
            with self._errors():
                self._keep(repr(inspect_table(self.address, store=scanner._store)))
            self._keep(repr(scanner.metrics), repr(scanner._run.__dict__), _decoded(scanner.page_token))
        self._keep(*(repr(event) + json.dumps(event.fields(), default=str) for event in events))

    def _commands(self) -> None:
        given = [part for pair in self.options.items() for part in ("--storage-option", "=".join(pair))]
        for command in (
            ["files", self.address, "--limit", "2", "--summary"],
            ["files", self.address, "--output", "json"],
            ["files", self.address, "--page-token", "x"],
            ["explain", self.address, "--analyze"],
            ["explain", self.address, "--output", "json"],
            ["inspect", self.address],
            ["inspect", self.address, "--output", "json"],
        ):
            result = CliRunner().invoke(main, [*command, *given])
            self._keep(result.output, result.stderr, repr(result.exception))

    def _keep(self, *texts: str) -> None:
        self.texts += texts

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DeltaSidecarError as error:
            self._keep(str(error), repr(error), repr(error.__dict__), "".join(traceback.format_exception(error)))


def _decoded(token: str | None) -> str:
    return "" if token is None else repr(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))


def assert_hidden(text: str, *secrets: str) -> None:
    """No secret is there, as it is or as addresses write it."""
    assert text
    for secret in secrets:
        forms = {secret, quote(secret, safe=""), unquote(secret), secret.rstrip("="), quote(quote(secret, safe=""))}
        # Bare prefixes would be telling as well.
        forms |= {secret[:16], secret[-16:].rstrip("=")}
        for form in forms:
            at = text.find(form)
            assert at < 0, f"a secret is shown after: {text[max(0, at - 200) : at]!r}"


@pytest.fixture(scope="module")
def lake(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A container of Azurite with a table in it."""
    container = azurite.create_container()
    store = open_store(f"abfss://{container}/t", azurite.options)
    table_in(store, tmp_path_factory.mktemp("secrets"))
    return container


def test_a_key_in_the_options(azurite: Azurite, lake: str) -> None:
    told = Listening(f"abfss://{lake}/t", azurite.options).everything()
    assert "scan_ended" in told
    assert_hidden(told, azurite.options["account_key"])


def test_a_key_that_is_wrong(azurite: Azurite, lake: str) -> None:
    told = Listening(f"abfss://{lake}/t", {**azurite.options, "account_key": WRONG}).everything()
    assert "AuthenticationError" in told
    assert_hidden(told, WRONG)


def test_a_signature_in_the_address(azurite: Azurite, lake: str) -> None:
    signature = azurite.container_sas(lake)
    options = {name: value for name, value in azurite.options.items() if name != "account_key"}
    told = Listening(f"abfss://{lake}/t?{signature}", options).everything()
    assert "files_emitted" in told
    secret = dict(part.split("=", 1) for part in signature.split("&"))["sig"]
    assert_hidden(told, unquote(secret))
    cut = Listening(f"abfss://{lake}/t?{signature[:-9]}", options).everything()
    assert_hidden(cut, unquote(secret)[:24])


def test_a_key_in_the_environment(azurite: Azurite, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {name: value for name, value in azurite.options.items() if name != "account_key"}
    for key in (azurite.options["account_key"], WRONG):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
        assert_hidden(Listening(f"abfss://{lake}/t", options).everything(), key)


@pytest.mark.full
def test_a_token(secure_azurite: Azurite, tmp_path: Path) -> None:
    container = secure_azurite.create_container()
    options = secure_azurite.secure_options
    credential = Credential()
    store = open_store(f"abfss://{container}/t", options, credential=credential)
    table_in(store, tmp_path)
    told = Listening(f"abfss://{container}/t", options, credential).everything()
    assert "scan_ended" in told
    assert credential.tokens
    assert_hidden(told, *credential.tokens)


@pytest.mark.full
def test_keys_of_s3(moto: Moto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = moto.create_bucket()
    table_in(open_store(f"s3://{bucket}/t", moto.options), tmp_path)
    told = Listening(f"s3://{bucket}/t", moto.options).everything()
    secrets = [value for name, value in moto.options.items() if "secret" in name or "token" in name]
    assert secrets
    assert_hidden(told, *secrets)
    left = {name: value for name, value in moto.options.items() if "secret" not in name and "access" not in name}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAPLANTEDPLANTED00")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WRONG)
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"session{WRONG}")
    assert_hidden(Listening(f"s3://{bucket}/t", left).everything(), WRONG, f"session{WRONG}")


@pytest.mark.parametrize("name", ["DELTA_COMMIT_PARALLELISM", "DELTA_SCAN_STRATEGY", "DELTA_REMOVE_SET_MEMORY_LIMIT"])
def test_a_secret_in_a_variable_of_ours(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, WRONG)
    told = Listening(str(tmp_path), None).everything()
    assert name in told
    assert_hidden(told, WRONG)


def test_the_search_can_fail() -> None:
    with pytest.raises(AssertionError, match="a secret is shown"):
        assert_hidden(f"x sig={quote(WRONG, safe='')}", WRONG)

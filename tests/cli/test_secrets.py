"""A mark in every place of an address and of options where a secret may be: nobody gets to see it."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tests.loopback import Answer
from tests.store.identity_server import IdentityServer

from delta_sidecar import LazyDeltaScanner
from delta_sidecar.cli import main
from delta_sidecar.errors import DeltaSidecarError, OptionError
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.client import AZURE_OPTIONS, GOOGLE_OPTIONS, REQUEST_OPTIONS, S3_OPTIONS, options_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MARK = "Zw7markQ"
BLOB = "acct.blob.core.windows.net"
DFS = "acct.dfs.core.windows.net"

# Nobody listens on the discard port: what is not refused at once fails there.
NOWHERE = {"retry_max_retries": "0", "connect_timeout": "1s"}
AZURE_NOWHERE = {**NOWHERE, "endpoint": "http://127.0.0.1:9/acct"}
S3_NOWHERE = {**NOWHERE, "aws_endpoint": "http://127.0.0.1:9", "aws_region": "eu-west-1"}
GOOGLE_NOWHERE = {**NOWHERE, "base_url": "http://127.0.0.1:9"}

SIGNED = [
    f"https://{BLOB}/c/t?sv=2024-01-01&sig={MARK}%2Babc%3D",
    f"https://{BLOB}/c/t?SIG={MARK}",
    f"https://{BLOB}/c?sig={MARK}",
    f"az://c/t?sig={MARK}&sv=2024-01-01",
    f"abfss://c@{DFS}/t?sv=2024-01-01&sig={MARK}",
    f"http://127.0.0.1:9/acct/c/t?sig={MARK}",
]
# A scheme, what can stand before a name in it, and a table in it.
PLACES = [
    ("https", f"{BLOB}", "/c/t"),
    ("https", f"{DFS}", "/c/t"),
    ("https", "example.com", "/c/t"),
    ("http", "127.0.0.1:9", "/acct/c/t"),
    ("abfss", f"c@{DFS}", "/t"),
    ("abfss", "c@example.com", "/t"),
    ("abfs", "c", "/t"),
    ("az", "c", "/t"),
    ("s3", "b", "/t"),
    ("s3a", "b", "/t"),
    ("gs", "b", "/t"),
    ("memory", "b", "/t"),
    ("file", "", "/t"),
    ("wasbs", f"c@{BLOB}", "/t"),
]
QUERIES = [
    f"?sig={MARK}#f",
    f"?X={MARK}",
    f"?{MARK}",
    f"#{MARK}",
    f"?sv=1#sig={MARK}",
    f"%3Fsig%3D{MARK}",
    f"%3fsv=1&SIG={MARK}",
    f"%3Fx={MARK}",
    f"%253Fsig%253D{MARK}",
    f"&sig={MARK}",
    f"/a//b?sig={MARK}",
    f"/../%3Fsig={MARK}",
]


def refused(scheme: str, host: str, path: str) -> list[str]:
    """A place with a secret wherever none belongs."""
    found = [f"{scheme}://{host}{path}{query}" for query in QUERIES]
    found += [
        f"{scheme}://{host}?{MARK}",
        f"{scheme}://{host}#{MARK}",
        f"{scheme}://u:{MARK}@{host}{path}",
        f"{scheme}://u:a/{MARK}@{host}{path}",
        f"{scheme}://u:a?{MARK}@{host}{path}",
        f"{scheme}://u%3A{MARK}@{host}{path}",
        f"{scheme}://{host}:{MARK}{path}",
        f"{scheme}://{host}:{MARK}@x{path}",
        f"{scheme}:/u:{MARK}@{host}{path}?sig={MARK}",
    ]
    if scheme not in {"abfs", "az"}:
        found.append(f"{scheme}://{MARK}@{host}{path}")
    if scheme != "file":
        found.append(f"{scheme}:/u:{MARK}@{host}{path}")
    return found


REFUSED_BY_HAND = [
    f"abfss://c:{MARK}@{DFS}/t",
    f"abfss://c%3a{MARK}@{DFS}/t",
    f"https://{BLOB}/c:{MARK}/t",
    f"https://{BLOB}/c%3F{MARK}/t",
    f"https://{BLOB}/c&sig={MARK}/t",
    f"http://127.0.0.1:9/acct:{MARK}/c/t",
    f"https%3A%2F%2F{BLOB}%2Fc%2Ft%3Fsig%3D{MARK}",
    f"{BLOB}/c/t?sv=1&sig={MARK}",
    f"{BLOB}/c/t%3Fsv=1&sig%3D{MARK}",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={MARK}==",
    f"AccountKey={MARK}==;BlobEndpoint=https://{BLOB}",
    f"BlobEndpoint=https://{BLOB};SharedAccessSignature=sv=1&sig={MARK}",
]
SECRET_OPTIONS = [
    *((name, MARK) for option in AZURE_OPTIONS if option.secret for name in (option.key, *option.names)),
    ("sas_key", f"?sv=2024-01-01&sig={MARK}"),
    ("connection_string", f"AccountName=acct;AccountKey={MARK}"),
    ("connection_string", f"AccountName=acct;SharedAccessSignature=sv=1&sig={MARK}"),
    ("connection_string", f"BlobEndpoint=http://u:{MARK}@127.0.0.1:9/acct"),
    ("connection_string", f"BlobEndpoint=http://127.0.0.1:{MARK}/acct"),
    ("connection_string", f"BlobEndpoint=http://[{MARK}]/acct"),
    ("connection_string", f"UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://127.0.0.1:{MARK}"),
    ("connection_string", f"AccountName=acct;{MARK}"),
    ("endpoint", f"http://u:{MARK}@127.0.0.1:9/acct"),
    ("endpoint", f"http://127.0.0.1:9/acct?sig={MARK}"),
    ("endpoint", f"http://127.0.0.1:9/acct#{MARK}"),
    ("endpoint", f"{MARK}"),
    ("authority_host", f"http://u:{MARK}@127.0.0.1:9"),
    ("msi_endpoint", f"http://u:{MARK}@127.0.0.1:9"),
    ("credential_type", f"{MARK}"),
    ("root_certificate", f"{MARK}"),
    ("proxy_url", f"http://u:{MARK}@127.0.0.1:9"),
    ("proxy_url", f"{MARK}"),
]
TYPED_OPTIONS = [option.key for option in (*REQUEST_OPTIONS, *AZURE_OPTIONS) if option.type != "text"]
OF_S3 = [
    *((name, MARK) for option in S3_OPTIONS if option.secret for name in (option.key, *option.names)),
    ("aws_acces_key", MARK),
    ("aws_endpoint", f"http://u:{MARK}@127.0.0.1:9"),
    ("aws_endpoint", f"http://127.0.0.1:9?x={MARK}"),
    ("endpoint_url", f"http://u:{MARK}@127.0.0.1:9"),
    ("endpoint", MARK),
    ("metadata_endpoint", f"http://u:{MARK}@127.0.0.1:9"),
    ("endpoint_url_sts", f"http://u:{MARK}@127.0.0.1:9"),
    *((option.key, MARK) for option in S3_OPTIONS if option.type != "text"),
]
ACCOUNT_KEYS = [
    MARK,
    json.dumps({"private_key": MARK, "private_key_id": MARK, "client_email": "a@b", "type": "service_account"}),
    json.dumps(
        {"private_key": f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----\n", "client_email": "a"}
    ),
    json.dumps({"type": "authorized_user", "client_id": "c", "client_secret": MARK, "refresh_token": MARK}),
]
OF_GOOGLE = [
    *((name, MARK) for option in GOOGLE_OPTIONS if option.secret for name in (option.key, *option.names)),
    *(("service_account_key", key) for key in ACCOUNT_KEYS),
    ("base_url", f"http://u:{MARK}@127.0.0.1:9"),
    ("base_url", MARK),
    ("skip_signature", MARK),
]
VARIABLES = [name for option in options_of("local") if option.secret for name in option.environment]
# What stands beside a secret, so that it is used.
BESIDE = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIexample",
    "AZURE_AUTHORITY_HOST": "http://127.0.0.1:9",
    "AZURE_CLIENT_ID": "client",
    "AZURE_TENANT_ID": "tenant",
}
OF_OTHERS = ["AZURE_PASSWORD", "IDENTITY_HEADER", "MSI_SECRET", "AWS_CONTAINER_AUTHORIZATION_TOKEN"]
NAMES = [
    f"{MARK}2hpZGRlbg==",
    f"{MARK}+abc/def",
    f"{MARK}" * 4,
    f"sv=2024-01-01&sig={MARK}",
    f"?sig={MARK}",
    f"AccountName=a;AccountKey={MARK}",
    f"Bearer {MARK}",
    f"eyJhbGciOi.{MARK}9.c2lnbmF0dXJl",
    f"3f2a7c1e-{MARK}-4b1d-9c3e-0123456789ab",
    f"0123456789{MARK}",
]


@pytest.mark.parametrize("address", SIGNED)
def test_a_signature_is_used_and_never_shown(address: str, caplog: pytest.LogCaptureFixture) -> None:
    assert MARK in (parse_address(address).sas or "")
    assert_hidden(address, {**AZURE_NOWHERE, "account_name": "acct"}, caplog)


@pytest.mark.parametrize(
    "addresses",
    [
        *(pytest.param(refused(*place), id=f"{place[0]}://{place[1]}") for place in PLACES),
        pytest.param(REFUSED_BY_HAND, id="by hand"),
    ],
)
def test_a_secret_where_none_belongs_is_refused_and_not_shown(
    addresses: list[str], caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    for address in addresses:
        with subtests.test(address):
            with pytest.raises(OptionError):
                LazyDeltaScanner(address)
            assert_hidden(address, {}, caplog)


def test_a_secret_option_is_not_shown(caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests) -> None:
    for name, value in SECRET_OPTIONS:
        with subtests.test(f"{name}={value}"):
            assert_hidden("az://c/t", {"account_name": "acct", **AZURE_NOWHERE, name: value}, caplog)
            if name == "connection_string":
                assert_hidden("az://c/t", {**NOWHERE, name: value}, caplog)


@pytest.mark.parametrize("name", TYPED_OPTIONS)
def test_a_value_that_is_none_is_not_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert_hidden("az://c/t", {"account_name": "acct", **AZURE_NOWHERE, name: MARK}, caplog)


@pytest.mark.parametrize(("name", "value"), OF_S3)
def test_a_secret_option_of_s3_is_not_shown(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    base = {key: value for key, value in S3_NOWHERE.items() if key != "aws_endpoint" or "endpoint" not in name}
    assert_hidden("s3://b/t", {**base, name: value}, caplog)
    key = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMIexample"}
    if name.removeprefix("aws_") in {*key, "session_token", "token"}:
        key = {part: value for part, value in key.items() if not name.endswith(part)}
        assert_hidden("s3://b/t", {**base, **key, name: value}, caplog)


@pytest.mark.parametrize(("name", "value"), OF_GOOGLE)
def test_a_secret_option_of_google_is_not_shown(name: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert_hidden("gs://b/t", {**GOOGLE_NOWHERE, name: value}, caplog)


@pytest.mark.parametrize("name", [*VARIABLES, *OF_OTHERS])
def test_a_secret_of_the_environment_is_not_shown(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    for beside, value in BESIDE.items():
        monkeypatch.setenv(beside, value)
    values = {
        "AZURE_STORAGE_CONNECTION_STRING": [f"AccountName=acct;AccountKey={MARK}", MARK],
        "GOOGLE_SERVICE_ACCOUNT_KEY": ACCOUNT_KEYS,
        "DELTA_SIDECAR_PROXY_URL": [f"http://u:{MARK}@127.0.0.1:9"],
    }
    for value in values.get(name, [MARK]):
        monkeypatch.setenv(name, value)
        assert_hidden("az://c/t", {"account_name": "acct", **AZURE_NOWHERE}, caplog)
        assert_hidden("s3://b/t", S3_NOWHERE, caplog)
        assert_hidden("gs://b/t", GOOGLE_NOWHERE, caplog)


@pytest.mark.parametrize(
    "variables",
    [
        {"AZURE_CLIENT_SECRET": MARK},
        {"AZURE_CLIENT_CERTIFICATE_PATH": __file__, "AZURE_CLIENT_CERTIFICATE_PASSWORD": MARK},
        {"AZURE_CREDENTIAL_TYPE": "managed_identity", "IDENTITY_HEADER": MARK},
        {"AZURE_CREDENTIAL_TYPE": "default", "IDENTITY_HEADER": MARK},
    ],
)
def test_a_secret_of_an_identity_is_not_shown(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = Answer(400, json.dumps({"error": "invalid_request", "error_description": f"bad {MARK}"}).encode())
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    for name, value in {**BESIDE, **variables}.items():
        monkeypatch.setenv(name, value)
    if variables.get("AZURE_CREDENTIAL_TYPE") == "default":
        monkeypatch.delenv("AZURE_AUTHORITY_HOST")
    with IdentityServer(refusal) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.address}/tokens")
        shown = everything_shown("az://c/t", {"account_name": "acct", **AZURE_NOWHERE}, caplog)
    assert MARK not in shown
    assert "Tried: " in shown


def test_a_signature_in_the_environment_and_the_address_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"sv=2024-01-01&sig={MARK}%2Babc%3D")
    for address in ("az://c/t", f"https://{BLOB}/c/t?sv=2024-01-01&sig={MARK}"):
        assert_hidden(address, {"account_name": "acct", **AZURE_NOWHERE}, caplog)


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_for_a_name_is_not_shown(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for address in ("az://c/t", "s3://b/t", "gs://b/t", "memory://b/t", str(tmp_path)):
        if address != str(tmp_path):
            with pytest.raises(OptionError):
                LazyDeltaScanner(address, storage_options={name: "x"})
        assert_hidden(address, {name: "x"}, caplog)
        assert_hidden(address, {name: "x", "timeout": "5s"}, caplog)


def test_a_secret_for_a_name_that_is_given_twice_is_not_shown() -> None:
    name = NAMES[1]
    flags = chain.from_iterable(("--storage-option", f"{name}={value}") for value in (1, 2))
    result = CliRunner().invoke(main, ["files", "t", *flags])
    assert result.exit_code == 2
    assert MARK not in result.output


def test_an_address_in_place_of_a_command_is_not_shown() -> None:
    result = CliRunner().invoke(main, [SIGNED[0]])
    assert result.exit_code == 2
    assert MARK not in result.output
    assert "delta-sidecar files TABLE" in result.stderr


def test_a_name_that_is_only_misspelled_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("acount_key", "fs.azure.account.key.acct1.dfs.core.windows.net", "AccountKey", "azure-storage-key"):
        shown = everything_shown("az://c/t", {name: MARK}, caplog)
        assert shown.count(repr(name)) >= 2
        assert MARK not in shown


def assert_hidden(address: str, options: Mapping[str, str], caplog: pytest.LogCaptureFixture) -> None:
    shown = everything_shown(address, options, caplog)
    assert MARK.lower() not in shown.lower(), shown


def everything_shown(address: str, options: Mapping[str, str], caplog: pytest.LogCaptureFixture) -> str:
    """What a person or a log file gets to see of a scan, from Python and from a shell."""
    caplog.clear()
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG):
        try:
            scanner = LazyDeltaScanner(address, storage_options=options)
            shown += (repr(scanner), str(scanner), repr(scanner._store), str(scanner._store.url))
            shown += map(repr, scanner.scan_files())
        except DeltaSidecarError as error:
            shown += (str(error), repr(error), *traceback.format_exception(error), repr(pickle.dumps(error)))
        flags = chain.from_iterable(("--storage-option", f"{name}={value}") for name, value in options.items())
        result = CliRunner().invoke(main, ["files", address, *flags])
        assert result.exit_code in {1, 2}
        shown += (result.stdout, result.stderr, repr(result.exception))
    return "\n".join([*shown, caplog.text])

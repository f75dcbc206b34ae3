"""S3: options and environment, credentials and their refusal, and long listings."""

from __future__ import annotations

import logging
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.loopback import Answer
from tests.store.scripted_server import ScriptedServer

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store import RequestLog, TripClock, open_store, run_in
from delta_sidecar.store.clouds.s3 import s3_access

if TYPE_CHECKING:
    from pathlib import Path

    from tests.moto_server import Moto

    from delta_sidecar.store import Store

KEY = {"access_key_id": "AKIDOFTHECALL", "secret_access_key": "SECRETofTheCall"}
VARIABLES = {
    "endpoint": "AWS_ENDPOINT_URL",
    "region": "AWS_REGION",
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
}


@pytest.fixture(scope="module")
def bucket(moto: Moto) -> str:
    return moto.create_bucket()


def works(store: Store, name: str) -> bool:
    store.put(f"{name}.json", b"hello", overwrite=True)
    return bytes(store.get(f"{name}.json").data) == b"hello"


def test_the_environment(moto: Moto, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for option, variable in VARIABLES.items():
        monkeypatch.setenv(variable, moto.options[option])
    store = open_store(f"s3://{bucket}/t")
    assert works(store, "environment")
    dumped = pickle.dumps(store)
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable)
    assert works(pickle.loads(dumped), "elsewhere")  # noqa: S301 - its own pickle


def test_a_changed_environment_is_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"endpoint": "http://127.0.0.1:9"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "one")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETone")
    one = open_store("s3://bucket/t", options)
    assert open_store("s3://bucket/u", options)._client is one._client  # type: ignore[attr-defined]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "two")
    assert open_store("s3://bucket/t", options)._client is not one._client  # type: ignore[attr-defined]


def sent_by(options: dict[str, str]) -> dict[str, str]:
    """The headers of a request that is made with some options."""
    with ScriptedServer(Answer.whole(b"hello")) as server:
        open_store("s3://bucket/t", {"endpoint": server.address, **server.impatience, **options}).get("f")
        return server.headers[0]


def test_a_key_of_the_call_is_not_mixed_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETofTheEnvironment")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "TOKENofTheEnvironment")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    headers = sent_by({**KEY, "region": "eu-north-1"})
    assert "Credential=AKIDOFTHECALL/" in headers["authorization"]
    assert "/eu-north-1/s3/" in headers["authorization"]
    assert "x-amz-security-token" not in headers
    assert sent_by({**KEY, "aws_session_token": "TOKENofTheCall"})["x-amz-security-token"] == "TOKENofTheCall"
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    headers = sent_by({})
    assert "Credential=AKIDOFTHEENVIRONMENT/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "TOKENofTheEnvironment"


def test_a_public_bucket_needs_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETofTheEnvironment")
    assert "authorization" not in sent_by({"skip_signature": "true"})


def test_plain_http_only_where_the_endpoint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    secure = open_store("s3://bucket/t", {**KEY, "endpoint": "https://127.0.0.1:9"})
    assert dict(secure._spec.client)["allow_http"] is False  # type: ignore[attr-defined]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    plain = open_store("s3://bucket/t", KEY)
    assert dict(plain._spec.client)["allow_http"] is True  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="'endpoint' must start with"):
        open_store("s3://bucket/t", {**KEY, "endpoint": "127.0.0.1:9"})


@pytest.mark.parametrize("missing", ["access_key_id", "secret_access_key"])
def test_half_a_key_is_refused(missing: str) -> None:
    half = {name: value for name, value in KEY.items() if name != missing}
    with pytest.raises(OptionError, match=f"'{missing}' is missing") as caught:
        open_store("s3://bucket/t", half)
    assert not [value for value in KEY.values() if value in str(caught.value)]


def test_a_web_identity_without_its_service_is_an_error_of_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("TOKENofTheWeb")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
    options = {"endpoint_url_sts": "https://127.0.0.1:9", "retry_max_retries": "0"}
    with pytest.raises(AuthenticationError, match="Tried: the web identity from the environment") as caught:
        open_store("s3://bucket/t", options).get("f")
    assert "TOKENofTheWeb" not in str(caught.value)


def test_a_web_identity_in_the_call_does_not_give_way_to_a_key_in_the_environment() -> None:
    call = {"web_identity_token_file": "f", "role_arn": "a"}
    assert s3_access(call, {}).identity.tried == "the web identity from the storage options"
    with pytest.raises(OptionError, match="unset AWS_ACCESS_KEY_ID"):
        s3_access(call, KEY)
    assert s3_access(KEY, call).identity.tried == "the access key from the storage options"


def test_what_is_tried() -> None:
    container = {"container_credentials_full_uri": "http://127.0.0.1:9"}
    assert s3_access({}, KEY).identity.tried == "the access key from the environment"
    assert s3_access({}, container).identity.tried == "the container's credentials from the environment"
    assert s3_access({}, {}).identity.tried.startswith("the role of this machine's instance")
    assert s3_access({}, {**KEY, "skip_signature": "true"}).identity.tried.startswith("no credentials")


def test_without_credentials_the_machine_is_asked_and_the_failure_says_so() -> None:
    options = {"metadata_endpoint": "http://127.0.0.1:9", "retry_max_retries": "0"}
    with pytest.raises(AuthenticationError, match=r"s3://bucket/t/f.*Tried: the role of this machine.*'access_key_id'"):
        open_store("s3://bucket/t", options).get("f")


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed"])
def test_what_is_wrong_with_a_token_is_an_error_of_credentials(code: str) -> None:
    answer = Answer(400, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
    with ScriptedServer(answer) as server:
        store = open_store("s3://bucket/t", {"endpoint": server.address, **server.impatience, **KEY})
        with pytest.raises(AuthenticationError, match=f"s3://bucket/t/f.*{code}"):
            store.get("f")


@pytest.mark.parametrize("number", range(3))
def test_refused_keys_are_an_error_without_secrets(
    moto: Moto, bucket: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    without_rights = moto.create_key()
    options, code = [
        (moto.options, "InvalidAccessKeyId"),
        ({**without_rights, "secret_access_key": "wrongSECRETwrong"}, "SignatureDoesNotMatch"),
        (without_rights, "AccessDenied"),
    ][number]
    store = open_store(f"s3://{bucket}/t", options)
    shown = [repr(store), store.url]
    with moto.refusing():
        for ask in (
            lambda: store.get("f.json"),
            lambda: list(store.list("")),
            lambda: store.put("f.json", b"x"),
        ):
            with pytest.raises(AuthenticationError, match=f"s3://{bucket}/t.*{code}.*Tried: the access key") as caught:
                ask()
            assert caught.value.__context__ is None
            shown += [*traceback.format_exception(caught.value), repr(pickle.dumps(caught.value))]
    shown.append(caplog.text)
    for secret in (options["access_key_id"], options["secret_access_key"]):
        assert not [text for text in shown if secret in text]


@pytest.mark.full
def test_long_listings_come_page_by_page(moto: Moto) -> None:
    store = open_store(f"s3://{moto.create_bucket()}/t", moto.options)
    names = [f"l/{number:05}.json" for number in range(1020)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    log = RequestLog()
    listing = store.bind(log).list("l/")
    clock = TripClock()
    pages = run_in(clock, lambda: [[meta.path for meta in page] for page in listing])
    assert [len(page) for page in pages] == [1000, 20]
    assert [path for page in pages for path in page] == names
    assert (log.snapshot().lists, log.snapshot().trips) == (2, 2)
    (tail,) = store.list("l/", after=names[-11])
    assert sorted(meta.path for meta in tail) == names[-10:]

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store import open_store
from delta_sidecar.store.address import parse_address
from delta_sidecar.store.client import client_for, client_spec

if TYPE_CHECKING:
    from pathlib import Path

S3 = {"AWS_ACCESS_KEY_ID": "SECRETid", "aws_secret_access_key": "SECRETkey", "region": "eu-west-1"}


def test_memory_stores_are_shared_by_name() -> None:
    open_store("memory://shared/t").put("f.json", b"x")
    assert bytes(open_store("memory://shared").get("t/f.json").data) == b"x"
    assert list(open_store("memory://another/t").list("")) == []


def test_options_of_other_clouds_are_passed_on() -> None:
    store = open_store("s3://bucket/t", {**S3, "timeout": "5s"})
    assert store.url == "s3://bucket/t"
    assert "SECRET" not in repr(store)
    assert open_store("gs://bucket/t", {"skip_signature": "true"}).url == "gs://bucket/t"


def test_unknown_options_of_other_clouds_are_refused_without_their_values() -> None:
    with pytest.raises(OptionError, match="aws_acces_key") as caught:
        open_store("s3://bucket/t", {**S3, "aws_acces_key": "SECRETtypo"})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("name", ["AWS_PROFILE", "AWS_IAM_ROLE_ARN", "aws_s3_assume_role_arn"])
def test_who_deltalake_is_does_not_say_who_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(AuthenticationError, match=f"^{name}: .* for the calls that deltalake does") as caught:
        open_store("s3://bucket/t", {name: "arn:aws:iam::1:role/x"})
    assert "iam::1" not in str(caught.value)
    assert open_store("s3://bucket/t", {name: "arn:aws:iam::1:role/x", **S3}).url == "s3://bucket/t"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("http1_only", "true"), ("http2_only", "false"), ("randomize_addresses", "true")),
        *(("pool_max_idle_per_host", "3"), ("default_content_type", "a/b"), ("http2_keep_alive_interval", "5s")),
        *(("http2_keep_alive_timeout", "5s"), ("http2_keep_alive_while_idle", "true"), ("aws_disable_tagging", "true")),
    ],
)
def test_options_of_object_store_reach_it(name: str, value: str) -> None:
    spec = client_spec(parse_address("s3://bucket/t"), {**S3, name: value}, {})
    assert client_for(spec)
    assert name.removeprefix("aws_") in dict(spec.client) | dict(spec.config)


def test_a_local_folder_takes_every_option(tmp_path: Path) -> None:
    options = {"AWS_PROFILE": "x", "account_key": "SECRET", "tiemout": "5s", "anything_else": "true"}
    assert open_store(tmp_path, options).url == str(tmp_path)


@pytest.mark.parametrize("address", ["memory://x/t", "az://lake/t"])
def test_unknown_options_are_refused(address: str) -> None:
    with pytest.raises(OptionError, match="'tiemout'; did you mean 'timeout'"):
        open_store(address, {"tiemout": "5s"})


def test_the_cap_comes_from_the_call_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"account_key": "a2V5"}
    uncapped = open_store("abfss://lake@uncapped.dfs.core.windows.net/t", key)
    assert uncapped._gate.limit == 64  # type: ignore[attr-defined]
    monkeypatch.setenv("DELTA_SIDECAR_MAX_CONCURRENT_REQUESTS", "9")
    address = "abfss://lake@capped.dfs.core.windows.net/t"
    store = open_store(address, key)
    assert store._gate.limit == 9  # type: ignore[attr-defined]
    open_store(address, {**key, "max_concurrent_requests": "3"})
    open_store(address, key)
    assert store._gate.limit == 3  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="'max_concurrent_requests' must be a whole number of at least 1"):
        open_store(address, {**key, "max_concurrent_requests": "0"})


def test_local_tables_do_not_import_obstore() -> None:
    code = (
        "import sys; from delta_sidecar.store import open_store; s = open_store('/tmp'); "
        "list(s.list('no-such-folder/')); print('obstore' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("False\n", "")

from __future__ import annotations

import subprocess
import sys

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store import open_store

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

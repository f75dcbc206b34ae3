from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store.address import parse_address


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/data/table", "/data/table"),
        ("/data/table/", "/data/table"),
        ("/data/a%20b #1", "/data/a%20b #1"),
        (Path("/data/a%20b"), "/data/a%20b"),
        ("file:///data/a%20b", "/data/a b"),
        ("file://localhost/data/t", "/data/t"),
        ("file:/data/t", "/data/t"),
        ("FILE:///data/t", "/data/t"),
    ],
)
def test_local_paths(address: str | Path, path: str) -> None:
    parsed = parse_address(address)
    assert (parsed.kind, parsed.prefix, parsed.url) == ("local", path, path)


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_address("./some/table").prefix == f"{tmp_path}/some/table"
    assert parse_address("~/table").prefix == f"{tmp_path}/~/table"


@pytest.mark.parametrize(
    ("address", "kind", "container", "prefix", "account", "endpoint"),
    [
        ("az://lake/a/b", "azure", "lake", "a/b", None, None),
        ("az://lake", "azure", "lake", "", None, None),
        ("abfss://lake/a%20b/", "azure", "lake", "a b", None, None),
        ("abfs://lake/a%23b%3Fc", "azure", "lake", "a#b?c", None, None),
        ("az://$web/day=1/sig=2", "azure", "$web", "day=1/sig=2", None, None),
        ("abfss://lake@acct.dfs.core.windows.net/t", "azure", "lake", "t", "acct", None),
        (
            "abfss://ws@onelake.dfs.fabric.microsoft.com/l.Lakehouse/Tables/t",
            *("azure", "ws", "l.Lakehouse/Tables/t", "onelake", "https://onelake.blob.fabric.microsoft.com"),
        ),
        (
            "https://acct.blob.core.windows.net/lake/a%20b",
            *("azure", "lake", "a b", "acct", "https://acct.blob.core.windows.net"),
        ),
        (
            "https://acct.dfs.core.windows.net/lake/t",
            *("azure", "lake", "t", "acct", "https://acct.blob.core.windows.net"),
        ),
        (
            "http://127.0.0.1:10000/devstoreaccount1/lake/t",
            *("azure", "lake", "t", "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1"),
        ),
        ("memory://x/t", "memory", "x", "t", None, None),
        ("s3://bucket/t", "s3", "bucket", "t", None, None),
        ("s3a://bucket/t", "s3", "bucket", "t", None, None),
        ("gs://bucket/t", "gs", "bucket", "t", None, None),
    ],
)
def test_addresses_with_a_scheme(
    address: str, kind: str, container: str, prefix: str, account: str | None, endpoint: str | None
) -> None:
    parsed = parse_address(address)
    assert (parsed.kind, parsed.container, parsed.prefix) == (kind, container, prefix)
    assert (parsed.account, parsed.endpoint, parsed.sas) == (account, endpoint, None)
    assert not parsed.url.endswith("/")


@pytest.mark.parametrize(
    "address",
    [
        "https://acct.blob.core.windows.net/lake/t?sv=2020-08-04&sig=SECRETabc%2Bdef%3D",
        "az://lake/t?sv=2020-08-04&sig=SECRETabc%2Bdef%3D",
        "abfss://lake@acct.dfs.core.windows.net/t?sv=2020-08-04&sig=SECRETabc%2Bdef%3D",
    ],
)
def test_a_signature_is_taken_out_of_the_address(address: str) -> None:
    parsed = parse_address(address)
    assert parsed.sas == "sv=2020-08-04&sig=SECRETabc%2Bdef%3D"
    assert parsed.prefix == "t"
    assert "SECRET" not in parsed.url
    assert "SECRET" not in repr(parsed)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "empty"),
        ("wasbs://c@a.blob.core.windows.net/t", "'wasbs' is not supported"),
        ("abfs://lake/a#b", "fragment; write %23"),
        ("abfs://lake/a?b", "no shared access signature .* write %3F"),
        ("gs://b/t?sig=SECRET", "query"),
        ("s3:/b/t", "'s3:[*]+': its scheme is not followed by ://"),
        (Path("https://acct.blob.core.windows.net/c/t?sig=SECRET"), "its scheme is not followed by ://"),
        ("s3://key:SECRET@bucket/t", "'s3://[*]+@bucket/t': its bucket is not a plain name"),
        ("abfss://c:SECRET@acct.dfs.core.windows.net/t", "its container is not a plain name"),
        ("https://acct.blob.core.windows.net/c/t%3Fsig%3DSECRET", "its path holds a query"),
        ("AccountName=a;AccountKey=SECRET", "storage option 'connection_string'"),
        ("az://", "no container"),
        ("az:///t", "no container"),
        ("abfss://c@example.com/t", "'example.com' is not that of an account"),
        ("https://example.com/c/t", "not that of an Azure storage account"),
        ("https://user:SECRETpass@example.com/c/t", "not that of an Azure storage account"),
        ("https://example.com/c/t?sig=SECRETsig", "not that of an Azure storage account"),
        ("http://acct.blob.core.windows.net/c/t", "not that of an Azure storage account"),
        ("https://acct.blob.core.windows.net/", "no container"),
        ("https://acct.blob.core.windows.net/c/t?token=SECRETtoken", "no shared access signature"),
        ("az://c/a/../b", "segments"),
        ("az://c/a//b", "segments"),
        ("file://server/share", "another machine"),
        ("s3://", "no bucket"),
        ("memory:///t", "no store"),
    ],
)
def test_a_bad_address_says_what_is_wrong_without_secrets(address: str | Path, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        parse_address(address)
    assert "SECRET" not in str(caught.value)
    assert "abfss://" in str(caught.value)

from __future__ import annotations

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.store.clouds.azure import EMULATOR, parse_connection_string


def test_with_a_key() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acct;AccountKey=a2V5+/==;EndpointSuffix=core.windows.net"
    assert parse_connection_string(text) == {
        "account_name": "acct",
        "account_key": "a2V5+/==",
        "endpoint": "https://acct.blob.core.windows.net",
    }


def test_with_a_signature_and_an_endpoint() -> None:
    text = "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature=?sv=1&sig=abc%3D;"
    assert parse_connection_string(text) == {
        "account_name": "acct",
        "sas_key": "sv=1&sig=abc%3D",
        "endpoint": "https://acct.blob.core.windows.net",
    }


def test_for_an_emulator() -> None:
    assert parse_connection_string("UseDevelopmentStorage=true") == EMULATOR
    assert parse_connection_string("usedevelopmentstorage=TRUE;DevelopmentStorageProxyUri=http://azurite") == {
        **EMULATOR,
        "endpoint": "http://azurite:10000/devstoreaccount1",
    }
    path_style = "AccountKey=k;BlobEndpoint=http://127.0.0.1:7777/devstoreaccount1"
    assert parse_connection_string(path_style)["account_name"] == "devstoreaccount1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SECRETkey", "part 1"),
        ("AccountName=a;SECRETkey", "part 2"),
        ("AccountKey=SECRETkey", "no account"),
        ("", "no account"),
    ],
)
def test_a_bad_one_is_refused_without_its_values(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        parse_connection_string(text)
    assert "SECRET" not in str(caught.value)

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from delta_sidecar import OptionError
from delta_sidecar.store import open_store
from delta_sidecar.store.redaction import Scrubber, redact_address

KEY = "c2VjcmV0L2tleSt3aXRoL3NsYXNoZXM9PQ=="


def test_known_values_disappear_in_every_encoding() -> None:
    scrubber = Scrubber([KEY])
    lower = quote(KEY, safe="").replace("%2F", "%2f").replace("%3D", "%3d").replace("%2B", "%2b")
    for form in (KEY, quote(KEY), quote(KEY, safe=""), lower):
        assert scrubber.scrub(f"before {form} after") == "before *** after"


def test_a_signature_disappears_without_the_rest_of_its_token() -> None:
    scrubber = Scrubber(["sv=2020&se=2030&sig=abc%2Fdef%2Bghi%3D"])
    for form in ("abc%2Fdef%2Bghi%3D", "abc/def+ghi="):
        assert form not in scrubber.scrub(f"x {form} y")


@pytest.mark.parametrize(
    "text",
    [
        "GET https://a.blob.core.windows.net/c?sv=1&sig=SECRET%2B&se=2",
        "GET https://a.blob.core.windows.net/c?SIG=SECRET",
        "AccountName=a;AccountKey=SECRET==;EndpointSuffix=x",
        "SharedAccessSignature=sv=1&sig=SECRET",
        "Authorization: Bearer SECRETSECRET.abc",
        "Authorization: SharedKey acct:SECRET==",
        "client_id=a&client_secret=SECRET&x=y",
        "X-Amz-Signature=SECRET&X-Amz-Credential=SECRET/2026",
        "grant_type=jwt&assertion=SECRET&x=y",
        '{"access_token": "SECRET", "expires_in": 1}',
        "{'refresh_token': 'SECRET'}",
        "token eyJhbGciOiJub25lIn0.SECRETSECRET.SECRET is bad",
        "-----BEGIN PRIVATE KEY-----\nSECRET\nSECRET\n-----END PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_disappears(text: str) -> None:
    scrubbed = Scrubber().scrub(text)
    assert "SECRET" not in scrubbed
    assert "***" in scrubbed


def test_a_service_account_disappears_in_parts() -> None:
    lines = [f"{number}line-of-a-private-key" for number in range(3)]
    private = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    key = json.dumps({"client_email": "a@b", "private_key": private, "private_key_id": "id-of-the-key"})
    text = Scrubber([key]).scrub(f"a@b, {lines[1]}, id-of-the-key, {' '.join(lines)}")
    assert text == "a@b, ***, ***, *** *** ***"


def test_ordinary_text_stays() -> None:
    text = "cannot read az://lake/signature/design=1: 500"
    assert Scrubber([KEY, "t", ""]).scrub(text) == text


def test_addresses() -> None:
    assert redact_address("https://h/c?sig=SECRET") == "https://h/c"
    assert redact_address("https://user:SECRET@h/c") == "https://***@h/c"
    assert redact_address("abfss://c@a.dfs.core.windows.net/t") == "abfss://c@a.dfs.core.windows.net/t"
    assert "SECRET" not in redact_address("AccountName=a;AccountKey=SECRET")


@pytest.mark.parametrize("address", ["acc.blob.core.windows.net/c/t?sv=1&sig=HIDDEN", "https:/acc.blob/c/t?sig=HIDDEN"])
def test_a_signature_on_an_address_without_a_scheme_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_store(address)
    assert "HIDDEN" not in str(caught.value)

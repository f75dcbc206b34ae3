"""Azure connection strings, as the portal shows them, taken apart into options."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from delta_sidecar.errors import OptionError

EMULATOR = {
    "account_name": "devstoreaccount1",
    # Every emulator has this account and this key; both are in Azure's documentation.
    "account_key": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
}
"""The options that reach an emulator on its usual port."""


def parse_connection_string(text: str) -> dict[str, str]:
    """Gives the options `account_name, account_key, sas_key, endpoint`, as far as the string holds them.

    Raises:
        OptionError: It is not a list of `Name=value` separated by semicolons, names no account, or an address in it is
            not valid. The message holds names alone, never values.
    """
    fields = _fields(text)
    if fields.get("usedevelopmentstorage", "").lower() == "true":
        return _emulator(fields)
    options: dict[str, str] = {}
    for name, key in (("accountname", "account_name"), ("accountkey", "account_key")):
        if fields.get(name):
            options[key] = fields[name]
    if fields.get("sharedaccesssignature"):
        options["sas_key"] = fields["sharedaccesssignature"].removeprefix("?")
    endpoint = fields.get("blobendpoint", "").rstrip("/")
    if endpoint:
        options["endpoint"] = endpoint
        options.setdefault("account_name", _account_of(endpoint))
    elif "account_name" in options:
        scheme = fields.get("defaultendpointsprotocol", "https")
        suffix = fields.get("endpointsuffix", "core.windows.net")
        options["endpoint"] = f"{scheme}://{options['account_name']}.blob.{suffix}"
    if not options.get("account_name"):
        msg = "the connection string names no account: it needs AccountName or BlobEndpoint"
        raise OptionError(msg)
    return options


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(";"))), start=1):
        name, equals, value = part.partition("=")
        if not equals:
            msg = f"part {number} of the connection string is not of the form Name=value"
            raise OptionError(msg)
        fields[name.strip().lower()] = value.strip()
    return fields


def _emulator(fields: dict[str, str]) -> dict[str, str]:
    proxy = fields.get("developmentstorageproxyuri", "").rstrip("/")
    if not proxy:
        return dict(EMULATOR)
    parts, port = _split(proxy, "DevelopmentStorageProxyUri")
    host = parts.netloc if port else f"{parts.netloc}:10000"
    return {**EMULATOR, "endpoint": f"{parts.scheme or 'http'}://{host}/{EMULATOR['account_name']}"}


def _account_of(endpoint: str) -> str:
    parts, _ = _split(endpoint, "BlobEndpoint")
    return parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]


def _split(address: str, field: str) -> tuple[SplitResult, int | None]:
    try:
        return (parts := urlsplit(address)), parts.port
    except ValueError:
        # Its text may hold a part of the address.
        msg = f"the {field} of the connection string is not an address"
    raise OptionError(msg)

"""Where a table is: one address taken apart.

    /data/table, ./table, a pathlib.Path                        a local folder
    file:///data/table                                          the same, percent-encoded
    memory://name/table                                         this process's memory
    az://container/table, abfss://container/table               Azure, the account from options or environment
    abfss://container@account.dfs.core.windows.net/table        Azure
    https://account.blob.core.windows.net/container/table?sig=  Azure, with a shared access signature
    s3://bucket/table, gs://bucket/table                        other clouds

In addresses with a scheme `%20` stands for a space, as in every URL; local paths are taken as they are.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote

from delta_sidecar.errors import OptionError
from delta_sidecar.store.redaction import redact_address

StoreKind: TypeAlias = Literal["local", "memory", "azure", "s3", "gs"]


@dataclass(frozen=True, slots=True)
class Address:
    """A table's address.

    Attributes:
        kind: Which kind of store it is in.
        url: The address for messages: no secrets, no `/` at its end.
        container: The container, the bucket or the name of the memory store; empty for local folders.
        prefix: The table's folder inside of it, decoded; for local folders the absolute path.
        account: The Azure account, where the address names it.
        endpoint: The Azure endpoint, where the address names it.
        sas: The shared access signature, where the address holds one.
    """

    kind: StoreKind
    url: str
    container: str
    prefix: str
    account: str | None = None
    endpoint: str | None = None
    sas: str | None = field(default=None, repr=False)


def parse_address(address: str | os.PathLike[str]) -> Address:
    """Takes a table's address apart, without looking at any store.

    Raises:
        OptionError: It is no address that this library knows.
    """
    if not isinstance(address, str):
        return _local(os.fspath(address))
    scheme, separator, rest = address.partition("://")
    if not separator or "/" in scheme:
        if re.match(r"(?i)file:/", address):
            return _local(unquote(address[len("file:") :]))
        return _local(address)
    scheme = scheme.lower()
    if scheme == "file":
        return _file(address, rest)
    if scheme == "memory":
        return _simple("memory", scheme, address, rest)
    if scheme in {"s3", "s3a"}:
        return _simple("s3", "s3", address, rest)
    if scheme in {"gs", "gcs"}:
        return _simple("gs", "gs", address, rest)
    if scheme in {"az", "azure", "adl", "abfs", "abfss"}:
        return _azure(scheme, address, rest)
    if scheme in {"http", "https"}:
        return _azure_web(scheme, address, rest)
    raise _bad(address, f"the scheme {scheme!r} is not supported")


# An account's host: account.blob.core.windows.net, its dfs twin, the sovereign clouds, and OneLake.
_HOST = re.compile(
    r"(?P<account>[a-z0-9][a-z0-9-]*)(?P<zone>\.z\d+)?\.(?:blob|dfs)\."
    r"(?P<suffix>core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net"
    r"|fabric\.microsoft\.com)"
)


_SIGNED = re.compile(r"[?&]sig=", re.IGNORECASE)


def _local(path: str) -> Address:
    if not path:
        raise _bad(path, "it is empty")
    if _SIGNED.search(path):
        place = path.partition("?")[0]
        raise _bad(
            place, "it carries a signature (?...sig=) but no scheme; write https://account.blob.core.windows.net/..."
        )
    absolute = str(Path(path).absolute())
    return Address("local", absolute, "", absolute)


def _file(address: str, rest: str) -> Address:
    host, _, path = rest.partition("/")
    if host not in {"", "localhost"}:
        raise _bad(address, f"a file:// address of another machine ({host!r}); write file:///path")
    return _local("/" + unquote(path))


def _simple(kind: StoreKind, scheme: str, address: str, rest: str) -> Address:
    container, _, path = rest.partition("/")
    if not container or "@" in container:
        raise _bad(address, "it names no bucket" if kind != "memory" else "it names no store")
    prefix = _prefix(address, path)
    return Address(kind, _url(f"{scheme}://{container}", prefix), container, prefix)


def _azure(scheme: str, address: str, rest: str) -> Address:
    rest, sas = _split_sas(rest)
    authority, _, path = rest.partition("/")
    prefix = _prefix(address, path)
    container, at, host = authority.partition("@")
    if not container:
        raise _bad(address, "it names no container")
    if not at:
        return Address("azure", _url(f"{scheme}://{container}", prefix), container, prefix, sas=sas)
    known = _HOST.fullmatch(host.lower())
    if known is None:
        raise _bad(address, f"{host!r} is not an account's host such as account.dfs.core.windows.net")
    endpoint = None if known["suffix"] == "core.windows.net" else _endpoint(known)
    url = _url(f"{scheme}://{container}@{host}", prefix)
    return Address("azure", url, container, prefix, known["account"], endpoint, sas)


def _azure_web(scheme: str, address: str, rest: str) -> Address:
    rest, sas = _split_sas(rest)
    if "?" in rest:
        raise _bad(address, "it has a query but no shared access signature (sig=) in it")
    host, _, path = rest.partition("/")
    known = _HOST.fullmatch(host.lower())
    if known is not None and scheme == "https":
        account, endpoint = known["account"], _endpoint(known)
    elif _is_emulator(host):
        # Emulators have no host names of their own, so the account is the first part of the path.
        account, _, path = path.partition("/")
        endpoint = f"{scheme}://{host}/{account}"
    else:
        raise _bad(address, f"{host.rpartition('@')[2]!r} is not an Azure storage account's host")
    container, _, path = path.partition("/")
    if not account or not container:
        raise _bad(address, "it names no container")
    prefix = _prefix(address, path)
    base = f"{scheme}://{host}/{account}" if known is None else f"{scheme}://{host}"
    return Address("azure", _url(f"{base}/{container}", prefix), container, prefix, account, endpoint, sas)


def _endpoint(host: re.Match[str]) -> str:
    return f"https://{host['account']}{host['zone'] or ''}.blob.{host['suffix']}"


def _is_emulator(host: str) -> bool:
    name = re.sub(r":\d+$", "", host).strip("[]")
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _split_sas(rest: str) -> tuple[str, str | None]:
    """Splits off a shared access signature; any other `?` belongs to the path."""
    path, _, query = rest.partition("?")
    return (path, query) if re.search(r"(?i)(?:^|&)sig=", query) else (rest, None)


def _prefix(address: str, path: str) -> str:
    prefix = unquote(path).strip("/")
    if prefix and any(segment in {"", ".", ".."} for segment in prefix.split("/")):
        raise _bad(address, "its path has empty, '.' or '..' segments")
    return prefix


def _url(base: str, prefix: str) -> str:
    return f"{base}/{prefix}" if prefix else base


def _bad(address: str, why: str) -> OptionError:
    msg = (
        f"cannot use the address {redact_address(address)!r}: {why}. Give a local path, or an address that "
        "starts with file://, memory://, az://, abfs://, abfss://, https://account.blob.core.windows.net/, "
        "s3:// or gs://"
    )
    return OptionError(msg)

"""The address of a table, taken apart.

    /data/table, ./table, a pathlib.Path                        a local folder
    file:///data/table                                          the same, percent-encoded
    memory://name/table                                         this process's memory
    az://container/table, abfss://container/table               Azure, the account from options or environment
    abfss://container@account.dfs.core.windows.net/table        Azure
    https://account.blob.core.windows.net/container/table?sig=  Azure, with a shared access signature
    s3://bucket/table, gs://bucket/table                        other clouds

In addresses with a scheme `%20` stands for a space, as in every URL, and a `?` or `#` in a name is written `%3F` or
`%23`; local paths are taken as they are. Secrets have one place, a shared access signature. Anywhere else they are
refused, and no message shows them.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias
from urllib.parse import unquote

from delta_sidecar.errors import OptionError
from delta_sidecar.store.redaction import is_plain_host, is_plain_name, redact_address

StoreKind: TypeAlias = Literal["local", "memory", "azure", "s3", "gs"]


@dataclass(frozen=True, slots=True)
class Address:
    """A table's address."""

    kind: StoreKind
    url: str  # for messages: no secrets, no `/` at its end
    container: str  # or the bucket, or the name of the memory store; empty for local folders
    prefix: str  # the table's folder inside of it, decoded; for local folders the absolute path
    account: str | None = None  # of Azure, where the address names it
    endpoint: str | None = None  # of Azure, where the address names it
    sas: str | None = field(default=None, repr=False)  # the shared access signature


def parse_address(address: str | os.PathLike[str]) -> Address:
    """Takes a table's address apart, without looking at any store.

    Raises:
        OptionError: It is no address that this library knows, or holds a secret where none belongs.
    """
    if not isinstance(address, str):
        return _local(os.fspath(address))
    found = re.match(r"(?i)(?:([a-z][\w+.-]*)://|(file):(?=/))", address)
    if found is None:
        return _local(address)
    scheme, rest = (found[1] or found[2]).lower(), address[found.end() :]
    place, sas = _split_sas(address, rest, signable=scheme in _AZURE or scheme in _WEB)
    if scheme in _AZURE:
        return _azure(scheme, address, place, sas)
    if scheme in _WEB:
        return _azure_web(scheme, address, place, sas)
    if scheme in _OTHERS:
        return _simple(_OTHERS[scheme], address, place)
    if scheme == "file":
        return _file(address, place)
    if is_for_deltalake(address):
        raise _bad(address, f"the scheme {scheme!r} is known to deltalake alone, which a DeltaTable goes through")
    raise _bad(address, f"the scheme {scheme!r} is not supported")


def is_for_deltalake(address: str | os.PathLike[str]) -> bool:
    """True if an address has a scheme that deltalake knows and this library does not."""
    scheme, found, _ = str(address).partition("://")
    return bool(found) and (scheme.lower() in _OF_DELTALAKE or scheme.lower().startswith("opendal+"))


class UnreachableStore:
    """The store of a table that only deltalake can reach: every request is refused, with what to do instead."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        msg = (
            f"{self.url} can be reached by deltalake alone. What goes through to it works: version, load_as_version, "
            "delete, update, merge, optimize, vacuum, alter, restore, load_cdf, create_checkpoint and others; "
            "as_deltalake() gives the table that reads there"
        )
        raise OptionError(msg)


def settled(address: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Returns an address that does not depend on the working directory: local paths become absolute, without links."""
    found = parse_address(address)
    return Path(found.prefix).resolve() if found.kind == "local" else address


_AZURE = {"az", "azure", "adl", "abfs", "abfss"}
_WEB = {"http", "https"}
_OF_DELTALAKE = {
    *("azblob", "azdls", "b2", "cos", "dbfs", "fs", "hdfs", "hf", "lakefs", "obs", "oss", "sftp", "swift", "tos", "uc"),
    *("viewfs", "webdav", "webhdfs"),
}
_OTHERS: dict[str, StoreKind] = {"memory": "memory", "s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}

# An account's host: account.blob.core.windows.net, its dfs twin, the sovereign clouds, and OneLake.
_HOST = re.compile(
    r"(?P<account>[a-z0-9][a-z0-9-]*)(?P<zone>\.z\d+)?\.(?:blob|dfs)\."
    r"(?P<suffix>core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net"
    r"|fabric\.microsoft\.com)"
)

_CLOUD = re.compile(rf"(?i)(?:{'|'.join((*_AZURE, *_WEB, *_OTHERS, 'wasbs?'))}):")

_SIGNED = re.compile(r"(?i)[?&]sig=")
_LIKE_A_QUERY = re.compile(r"(?i)\?[^/]*=|&sig=")
_CONNECTION_STRING = re.compile(r"(?i)(?:^|;)\s*(?:AccountKey|SharedAccessSignature|SharedAccessKey)\s*=")


def _decoded(text: str) -> str:
    """A text without percent-encoding, even where it was encoded more than once."""
    while (decoded := unquote(text)) != text:
        text = decoded
    return text


def _local(path: str) -> Address:
    if not path:
        raise _bad(path, "it is empty")
    if _CLOUD.match(path):
        raise _bad(path, "its scheme is not followed by ://")
    if _SIGNED.search(_decoded(path)):
        raise _bad(path, "it carries a signature (?...sig=) but no scheme such as https://")
    if _CONNECTION_STRING.search(path):
        raise _bad(path, "it is a connection string; that goes into the storage option 'connection_string'")
    absolute = str(Path(path).absolute())
    return Address("local", absolute, "", absolute)


def _file(address: str, place: str) -> Address:
    host, _, path = place.partition("/")
    if host not in {"", "localhost"}:
        raise _bad(address, "it is a file:// address of another machine; write file:///path")
    if _LIKE_A_QUERY.search(_decoded(path)):
        raise _bad(address, "its path holds a query")
    return _local("/" + unquote(path))


def _simple(kind: StoreKind, address: str, place: str) -> Address:
    container, _, path = place.partition("/")
    what = "store" if kind == "memory" else "bucket"
    if not container:
        raise _bad(address, f"it names no {what}")
    if not is_plain_name(container):
        raise _bad(address, f"its {what} is not a plain name; credentials go into storage options")
    prefix = _prefix(address, path)
    return Address(kind, _url(f"{kind}://{container}", prefix), container, prefix)


def _azure(scheme: str, address: str, place: str, sas: str | None) -> Address:
    authority, _, path = place.partition("/")
    container, at, host = authority.partition("@")
    if not container:
        raise _bad(address, "it names no container")
    if not is_plain_name(container):
        raise _bad(address, "its container is not a plain name; credentials go into storage options")
    prefix = _prefix(address, path)
    if not at:
        return Address("azure", _url(f"{scheme}://{container}", prefix), container, prefix, sas=sas)
    known = _HOST.fullmatch(host.lower())
    if known is None:
        raise _bad(address, f"{_shown(host)} is not that of an account, such as account.dfs.core.windows.net")
    endpoint = None if known["suffix"] == "core.windows.net" else _endpoint(known)
    url = _url(f"{scheme}://{container}@{host}", prefix)
    return Address("azure", url, container, prefix, known["account"], endpoint, sas)


def _azure_web(scheme: str, address: str, place: str, sas: str | None) -> Address:
    host, _, path = place.partition("/")
    known = _HOST.fullmatch(host.lower())
    if known is not None and scheme == "https":
        account, endpoint = known["account"], _endpoint(known)
    elif _is_emulator(host):
        # Emulators have no host names of their own, so the account is the first part of the path.
        account, _, path = path.partition("/")
        endpoint = f"{scheme}://{host}/{account}"
    else:
        raise _bad(address, f"{_shown(host)} is not that of an Azure storage account")
    container, _, path = path.partition("/")
    if not account or not container:
        raise _bad(address, "it names no container")
    if not is_plain_name(account) or not is_plain_name(container):
        # The path is not shown, for that is where the name is.
        without_path = f"{scheme}://{host}"
        raise _bad(without_path, "its container is not a plain name; credentials go into storage options")
    prefix = _prefix(address, path)
    base = f"{scheme}://{host}/{account}" if known is None else f"{scheme}://{host}"
    return Address("azure", _url(f"{base}/{container}", prefix), container, prefix, account, endpoint, sas)


def _endpoint(host: re.Match[str]) -> str:
    return f"https://{host['account']}{host['zone'] or ''}.blob.{host['suffix']}"


def _shown(host: str) -> str:
    name = host.rpartition("@")[2]
    return f"its host {name!r}" if is_plain_host(name) else "its host"


def _is_emulator(host: str) -> bool:
    name = re.sub(r":\d+$", "", host).strip("[]")
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _split_sas(address: str, rest: str, *, signable: bool) -> tuple[str, str | None]:
    """Splits off a shared access signature, the one query that there is."""
    place, mark, query = rest.partition("?")
    if "#" in rest:
        raise _bad(address, "it has a fragment; write %23 for a # in a name")
    if mark and not signable:
        raise _bad(address, "it has a query; write %3F for a ? in a name")
    if mark and not _SIGNED.search(f"?{query}"):
        raise _bad(address, "it has a query but no shared access signature (sig=) in it; write %3F for a ? in a name")
    return place, query if mark else None


def _prefix(address: str, path: str) -> str:
    prefix = unquote(path).strip("/")
    if _LIKE_A_QUERY.search(_decoded(prefix)):
        raise _bad(address, "its path holds a query; a signature is written as it is, not percent-encoded")
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

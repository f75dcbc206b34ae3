"""The access of Spark to a table: its address as Hadoop spells it, and credentials in Hadoop's configuration.

Addresses, storage options and environment variables are those of `delta_sidecar.store`, read by the same functions.
Credentials go into the Hadoop configuration of a running session. They are never a setting of Spark: those are
arguments of the JVM's command line, which everybody on the machine can read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from delta_sidecar.errors import AuthenticationError, OptionError
from delta_sidecar.store.address import Address, parse_address
from delta_sidecar.store.client import REQUEST_OPTIONS, options_of
from delta_sidecar.store.clouds.azure import azure_access
from delta_sidecar.store.clouds.s3 import AccessKey, s3_access
from delta_sidecar.store.options import canonical, from_environment, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from delta_sidecar.store.clouds import CloudAccess

logger = logging.getLogger("delta_sidecar.spark")


def hadoop_url(table_url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> str:
    """Returns the address of a table as Spark names it.

    Azure tables are `abfss://container@account.dfs.core.windows.net/path`, or `abfs://` where the endpoint is reached
    by plain http, as an emulator is; S3 tables are `s3a://`, local ones `file://`. Nothing in it is percent-encoded,
    for Hadoop decodes nothing.

    Raises:
        OptionError: The address or an option cannot be understood, or Spark cannot reach such a store.
    """
    address = parse_address(table_url)
    call, environment = _sources(address, storage_options or {})
    if address.kind == "local":
        return f"file://{Path(address.prefix).as_posix()}"
    if address.kind == "memory":
        msg = f"Spark cannot reach {address.url}, which is in this process's memory: use a folder or an object store"
        raise OptionError(msg)
    if address.kind != "azure":
        scheme = {"s3": "s3a", "gs": "gs"}[address.kind]
        return f"{scheme}://{address.container}/{address.prefix}".rstrip("/")
    # An address needs no credentials.
    access = azure_access(address, {**call, "skip_signature": "true"}, environment)
    scheme = "abfs" if access.endpoint.startswith("http://") else "abfss"
    return f"{scheme}://{address.container}@{_host(access)}/{address.prefix}".rstrip("/")


def spark_path(address: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> str:
    """Returns the address, as Spark names it, of a place that Spark alone uses: the checkpoint location of a stream.

    Addresses of stores that this library does not know, such as `hdfs://` or `dbfs:/`, stay as they are. Options of a
    table's store do not count where the place is in a store of another kind.

    Raises:
        OptionError: The address cannot be understood.
    """
    options = _known_options(address, storage_options)
    return str(address) if options is None else hadoop_url(address, options)


def grant_path(
    spark: SparkSession, address: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> None:
    """Gives a running session the credentials of a place as for `spark_path`, where they are known."""
    options = _known_options(address, storage_options)
    if options is not None:
        grant(spark, address, options)


def _known_options(address: str | os.PathLike[str], options: Mapping[str, str] | None) -> dict[str, str] | None:
    """The options that the store of an address knows; None for a store that this library does not know."""
    found = re.match(r"([A-Za-z][\w+.-]*):/", address) if isinstance(address, str) else None
    if found is not None and found[1].lower() not in _OURS:
        return None
    known = names_of(options_of(parse_address(address).kind))
    return {name: value for name, value in (options or {}).items() if name.lower() in known}


_OURS = {"file", "memory", "az", "azure", "adl", "abfs", "abfss", "http", "https", "s3", "s3a", "gs", "gcs"}


def grant(
    spark: SparkSession, table_url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> None:
    """Gives a running session the credentials and the endpoint of a table, by its Hadoop configuration.

    Where neither the options nor the environment name credentials, the session keeps what it has. A file system that
    Hadoop has opened keeps the credentials that it was opened with.

    Raises:
        OptionError: An option cannot be understood, or names credentials that Hadoop has no use for.
    """
    values = hadoop_settings(table_url, storage_options)
    configuration = hadoop_configuration(spark)
    with without_py4j_log():
        for name, value in values.items():
            configuration.set(name, value)
    if values:
        # Names only: a value may be a secret.
        logger.debug("Hadoop settings for %s: %s", parse_address(table_url).url, ", ".join(sorted(values)))


def hadoop_settings(
    table_url: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns Hadoop's settings for a table, secrets among them, as `grant` sets them."""
    address = parse_address(table_url)
    call, environment = _sources(address, storage_options or {})
    if address.kind == "azure":
        return _azure(address, call, environment)
    return _s3(address, call, environment) if address.kind == "s3" else {}


def hadoop_configuration(spark: SparkSession) -> Any:  # noqa: ANN401 - an object of the JVM
    """Returns the Hadoop configuration of a session, which every file system of Spark is opened with."""
    context: Any = spark.sparkContext
    return context._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no public way


@contextlib.contextmanager
def without_py4j_log() -> Iterator[None]:
    """Keeps Py4J from logging, at level DEBUG, what this thread sends to the JVM."""
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_SILENCE)
    before = _SILENCE.is_kept
    _SILENCE.is_kept = True
    try:
        yield
    finally:
        _SILENCE.is_kept = before


class _Silence(threading.local, logging.Filter):
    """Holds back what is logged in threads that ask for it."""

    is_kept = False

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.is_kept or record.levelno > logging.DEBUG


_SILENCE = _Silence()

_PLAIN_HOST = re.compile(r"(?P<account>[a-z0-9-]+(?:\.z\d+)?)\.(?:blob|dfs)\.(?P<suffix>[a-z0-9.-]+)")

_S3_AUTH = "org.apache.hadoop.fs.s3a"


def _sources(address: Address, options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the call and of the environment by key, without those about requests."""
    table = options_of(address.kind)
    general = {option.key for option in REQUEST_OPTIONS}
    call, environment = (
        {key: value for key, value in options.items() if key not in general}
        for options in (canonical(options, table), from_environment(os.environ, table))
    )
    return call, environment


def _host(access: CloudAccess) -> str:
    """The host by which Hadoop knows an account: that of its file service, behind a proxy or not."""
    known = _PLAIN_HOST.fullmatch(urlsplit(access.endpoint).netloc)
    if known is not None:
        return f"{known['account']}.dfs.{known['suffix']}"
    return f"{access.config['account_name']}.dfs.core.windows.net"


def _azure(address: Address, call: dict[str, str], environment: dict[str, str]) -> dict[str, str]:
    credentials = {}
    try:
        access = azure_access(address, call, environment)
    except AuthenticationError:
        # There are none: the session may have its own.
        access = azure_access(address, {**call, "skip_signature": "true"}, environment)
    else:
        if "encryption_key" in access.config:
            msg = (
                "the storage option 'encryption_key' cannot be handed to Spark: set Hadoop's own fs.azure.encryption.*"
            )
            raise OptionError(msg)
        credentials = _azure_credentials(access, call)
    settings, host = _azure_endpoint(access) | credentials, _host(access)
    # All are settings of this account, but the one that Hadoop knows for all accounts only.
    return {key if key == "fs.azure.always.use.https" else f"{key}.{host}": value for key, value in settings.items()}


def _azure_endpoint(access: CloudAccess) -> dict[str, str]:
    address = urlsplit(access.endpoint)
    if _PLAIN_HOST.fullmatch(address.netloc):
        return {}
    secure = address.scheme == "https"
    port = address.port or (443 if secure else 80)
    settings = {
        "fs.azure.abfs.endpoint": f"{address.hostname}:{port}",
        # Behind an endpoint of its own is an emulator, which has blobs and no folders.
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        # Hadoop would send it figures as the JVM ends, and wait for minutes where it is gone already.
        "fs.azure.metrics.collection.enabled": "false",
    }
    # Only addresses with abfs:// heed this one; those of accounts have abfss://.
    return settings if secure else settings | {"fs.azure.always.use.https": "false"}


def _azure_credentials(access: CloudAccess, call: Mapping[str, str]) -> dict[str, str]:
    config = access.config
    kind = config["credential_type"]
    authority = config.get("authority_host", "https://login.microsoftonline.com")
    if kind == "access_key":
        return {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": config["account_key"]}
    if kind == "sas_token":
        return {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": config["sas_key"]}
    if kind == "client_secret":
        endpoint = f"{authority}/{config['tenant_id']}/oauth2/token"
        client = {"client.id": config["client_id"], "client.secret": config["client_secret"]}
        return _oauth("ClientCredsTokenProvider", {"client.endpoint": endpoint, **client})
    names = {"tenant_id": "msi.tenant", "client_id": "client.id"}
    if kind == "workload_identity":
        names |= {"federated_token_file": "token.file"}
        settings = {name: config[key] for key, name in names.items()}
        return _oauth("WorkloadIdentityTokenProvider", {"msi.authority": authority, **settings})
    if kind == "managed_identity" and not {"object_id", "msi_resource_id"} & set(config):
        names |= {"msi_endpoint": "msi.endpoint"}
        return _oauth("MsiTokenProvider", {name: config[key] for key, name in names.items() if key in config})
    if set(call) & _AZURE_CREDENTIALS:
        msg = (
            f"Spark cannot use {access.identity.tried}. Spark takes 'account_key', 'sas_key', 'client_secret' or "
            "'federated_token_file'; or configure the session for the account"
        )
        raise OptionError(msg)
    return {}


def _oauth(provider: str, settings: dict[str, str]) -> dict[str, str]:
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": f"org.apache.hadoop.fs.azurebfs.oauth2.{provider}",
        **{f"fs.azure.account.oauth2.{name}": value for name, value in settings.items()},
    }


# Options of a call that say who reads; where Hadoop has no use for them, to ignore them would be another identity.
_AZURE_CREDENTIALS = {
    *("token", "client_certificate_path", "use_azure_cli", "skip_signature", "credential_type", "object_id"),
    *("msi_endpoint", "msi_resource_id", "fabric_session_token"),
}


def _s3(address: Address, call: dict[str, str], environment: dict[str, str]) -> dict[str, str]:
    access = s3_access(call, environment)
    config, prefix = access.config, f"fs.s3a.bucket.{address.container}"
    for refused in sorted(set(config) & _S3_ENCRYPTION | set(call) & _S3_IDENTITIES):
        msg = f"the storage option {refused!r} cannot be handed to Spark: set Hadoop's own fs.s3a.* for it"
        raise OptionError(msg)
    settings = {}
    if isinstance(access.provider, AccessKey):
        key = access.provider
        provider = "TemporaryAWSCredentialsProvider" if key.session_token else "SimpleAWSCredentialsProvider"
        settings = {
            "aws.credentials.provider": f"{_S3_AUTH}.{provider}",
            "access.key": key.access_key_id,
            "secret.key": key.secret_access_key,
        }
        if key.session_token:
            settings["session.token"] = key.session_token
    elif config["skip_signature"] == "true":
        settings["aws.credentials.provider"] = f"{_S3_AUTH}.AnonymousAWSCredentialsProvider"
    if "region" in config:
        settings["endpoint.region"] = config["region"]
    if access.endpoint:
        virtual = config.get("virtual_hosted_style_request") == "true"
        settings |= {
            "endpoint": access.endpoint,
            "path.style.access": str(not virtual).lower(),
            "connection.ssl.enabled": str(access.endpoint.startswith("https://")).lower(),
        }
        settings.setdefault("endpoint.region", "us-east-1")
    if "request_payer" in config:
        settings["requester.pays.enabled"] = "true"
    return {f"{prefix}.{name}": value for name, value in settings.items()}


# To ignore these would be to write in another way, or as another identity. The identities of an environment are left to
# the session, which may know them by itself.
_S3_ENCRYPTION = {"server_side_encryption", "sse_kms_key_id", "sse_bucket_key_enabled", "sse_customer_key_base64"}
_S3_IDENTITIES = {"web_identity_token_file", "container_credentials_relative_uri", "container_credentials_full_uri"}

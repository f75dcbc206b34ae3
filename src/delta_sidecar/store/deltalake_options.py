"""Storage options that deltalake takes and this library's own reads have no use for.

They are passed over here, and go on to deltalake with the calls that it does.
"""

from __future__ import annotations

_WRITING = {
    "allow_unsafe_rename",
    "aws_copy_if_not_exists",
    "aws_s3_allow_unsafe_rename",
    "aws_s3_locking_provider",
    "copy_if_not_exists",
    "mount_allow_unsafe_rename",
}
_CLIENT = {
    "aws_ec2_metadata_disabled",
    "aws_ec2_metadata_timeout",
    "aws_force_credential_load",
    "aws_s3_addressing_style",
    "aws_s3_get_internal_server_error_retries",
    "aws_s3_pool_idle_timeout_seconds",
    "aws_sts_pool_idle_timeout_seconds",
    "concurrency_limit",
    "object_store_concurrency_limit",
}
# The address says it.
_CONTAINERS = {
    "aws_bucket",
    "aws_bucket_name",
    "azure_container_name",
    "bucket",
    "bucket_name",
    "container_name",
    "google_bucket",
    "google_bucket_name",
}
_IDENTITIES = {
    "aws_iam_role_arn",
    "aws_iam_role_session_name",
    "aws_profile",
    "aws_s3_assume_role_arn",
    "aws_s3_role_session_name",
}
_NAMES = _WRITING | _CLIENT | _CONTAINERS | _IDENTITIES
_PREFIXES = ("backoff.", "backoff_config.", "delta_dynamo_")
_DYNAMO = "_dynamodb"


def is_for_deltalake(name: str) -> bool:
    """Whether an option is for deltalake alone, by its name in either case."""
    lowered = name.lower()
    return lowered in _NAMES or lowered.startswith(_PREFIXES) or lowered.endswith(_DYNAMO)


def is_an_identity(name: str) -> bool:
    """Whether an option says by which profile or role of AWS deltalake goes, by its name in either case."""
    return name.lower() in _IDENTITIES

"""Storage options of deltalake that are its own: about writing, or about how it works inside.

Who comes from deltalake has them among the storage options of a table. For reading they mean nothing, so that they are
passed over here; what goes through to deltalake gets them. Those that say who reads are not passed over.
"""

from __future__ import annotations

_NAMES = frozenset(
    {
        "allow_unsafe_rename",
        "aws_copy_if_not_exists",
        "aws_force_credential_load",
        "aws_s3_allow_unsafe_rename",
        "aws_s3_locking_provider",
        "copy_if_not_exists",
        "mount_allow_unsafe_rename",
        "object_store_concurrency_limit",
    }
)
_ROLES = frozenset(
    {"aws_iam_role_arn", "aws_iam_role_session_name", "aws_s3_assume_role_arn", "aws_s3_role_session_name"}
)
_PREFIXES = ("backoff_config.", "delta_dynamo_")
_DYNAMO = "_dynamodb"


def is_for_writing(name: str) -> bool:
    """Whether an option is deltalake's own, by its name in either case."""
    lowered = name.lower()
    return lowered in _NAMES or lowered.startswith(_PREFIXES) or lowered.endswith(_DYNAMO)


def is_about_a_role(name: str) -> bool:
    """Whether an option makes deltalake take on a role of AWS, also for reading, by its name in either case."""
    return name.lower() in _ROLES

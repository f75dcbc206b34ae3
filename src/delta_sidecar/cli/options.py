"""The arguments and options that commands share: which table, which version of it, and how to reach its store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from delta_sidecar.table.pinned import TableHandle


# Too many arguments are counted by the command and not by click, which would show them: one may be half of a split
# secret.
ONE_TABLE = {"allow_extra_args": True}
"""Settings of a command that calls `only_one_table`."""


def only_one_table() -> click.Context:
    """Refuses more arguments than the table, without a word of what they are.

    Raises:
        click.UsageError: There are more.
    """
    ctx = click.get_current_context()
    if ctx.args:
        msg = f"one TABLE is expected, and {len(ctx.args)} more arguments were given"
        raise click.UsageError(msg, ctx)
    return ctx


def _storage_options(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Splits each `KEY=VALUE`. No message repeats a value, or a key that looks like one: that may be a secret."""
    options: dict[str, str] = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            msg = "KEY=VALUE is expected (what was given is not shown: it may be a secret)"
            raise click.BadParameter(msg, ctx, param)
        if options.setdefault(key.strip(), value) != value:
            from delta_sidecar.store.redaction import redact_name

            msg = f"{redact_name(key.strip())!r} is given twice, with different values"
            raise click.BadParameter(msg, ctx, param)
    return options


def column_names(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[str, ...]:
    """Splits names at commas; a comma in back-quotes is part of a name. Nothing given is no name."""
    names: list[str] = []
    for part in (given or "").split(","):
        if names and names[-1].count("`") % 2:
            names[-1] += f",{part}"
        else:
            names.append(part)
    found = tuple(name.strip() for name in names)
    if given is not None and not all(found):
        msg = "names of columns are expected, with commas between"
        raise click.BadParameter(msg, ctx, param)
    return found if given is not None else ()


def _plain_names(ctx: click.Context, param: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    """Names without their back-quotes; None where none is given."""
    found = column_names(ctx, param, given)
    return (
        tuple(re.sub(r"^`((?:[^`]|``)*)`$", lambda quoted: quoted[1].replace("``", "`"), name) for name in found)
        or None
    )


table_argument = click.argument("table")

columns_option = click.option(
    "--columns",
    metavar="COLUMN,...",
    callback=_plain_names,
    help="Only these columns, in this order; a name with a comma goes in back-quotes.",
)

where_option = click.option(
    "--where", metavar="PREDICATE", help="Leave out files that cannot hold a matching row: SQL text or JSON."
)

rows_where_option = click.option("--where", metavar="PREDICATE", help="Only rows that match: SQL text or JSON.")

limit_option = click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N files.")

strategy_option = click.option(
    "--strategy",
    type=click.Choice(["auto", "reverse", "forward"]),
    help="Newest commits first, or the checkpoint first. [default: auto]",
)

order_option = click.option(
    "--order",
    type=click.Choice(["recent", "any"]),
    help="Newest commits first and then a metadata sidecar from its newest end, or as is cheapest. "
    "[default: recent with --limit]",
)

version_option = click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="The table at version N; the newest if left out."
)

timestamp_option = click.option(
    "--timestamp",
    metavar="TIME",
    help="The table as of a time in ISO 8601, in UTC where it names no zone; not together with --version.",
)

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object.",
)

rows_output_option = click.option(
    "--output",
    type=click.Choice(["text", "json", "arrow", "csv"]),
    default="text",
    show_default=True,
    help="A table for people, a JSON object per row, an Arrow IPC stream, or CSV.",
)

summary_option = click.option(
    "--summary/--no-summary", default=None, help="What was read, on stderr at the end. [default: on a terminal]"
)

storage_option = click.option(
    "--storage-option",
    "storage_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_storage_options,
    help="An option of the store, such as account_key=...; may be repeated.",
)


# A table by what a call says of it.


def open_table(
    address: str,
    version: int | None,
    timestamp: str | None,
    storage_options: Mapping[str, str],
) -> TableHandle:
    """A table at a version, at a time, or as it is at its first use. Only a time is looked up at once.

    Raises:
        OptionError: A version and a time are given, or what is no time.
    """
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.table.pinned import TableHandle

    wanted = LazyScanConfig(version=version, timestamp=timestamp)
    table = TableHandle.of(address, version, storage_options)
    if wanted.timestamp is not None:
        table.pin(timestamp=wanted.timestamp)
    return table

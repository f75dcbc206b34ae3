"""Arguments and options that commands share: the table, its version, and how to reach its store."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from delta_sidecar.table.pinned import TableHandle

_F = TypeVar("_F", bound="Callable[..., Any]")


def _storage_options(_: click.Context, __: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    """Splits each `KEY=VALUE`. No message repeats a value, or a key that looks like one: that may be a secret."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            msg = "KEY=VALUE is expected (what was given is not shown: it may be a secret)"
            raise click.BadParameter(msg)
        if options.setdefault(key.strip(), value) != value:
            from delta_sidecar.store.redaction import redact_name

            msg = f"{redact_name(key.strip())!r} is given twice, with different values"
            raise click.BadParameter(msg)
    return options


def column_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Splits names at commas; a comma in back-quotes is part of a name. Without a text there is no name."""
    if text is None:
        return ()
    names: list[str] = []
    for part in text.split(","):
        if names and names[-1].count("`") % 2:
            names[-1] += f",{part}"
        else:
            names.append(part)
    found = tuple(name.strip() for name in names)
    if not all(found):
        msg = "names of columns are expected, with commas between"
        raise click.BadParameter(msg)
    return found


def _plain_names(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Names without their back-quotes; None where there is no name."""
    names = column_names(ctx, param, text)
    plain = (re.sub(r"^`((?:[^`]|``)*)`$", lambda quoted: quoted[1].replace("``", "`"), name) for name in names)
    return tuple(plain) or None


table = click.argument("table")

columns = click.option(
    "--columns",
    metavar="COLUMN,...",
    callback=_plain_names,
    help="Only these columns, in this order; a name with a comma goes in back-quotes.",
)

where = click.option(
    "--where",
    "predicate",
    metavar="PREDICATE",
    help="Leave out files that cannot hold a matching row: SQL text or JSON.",
)

rows_where = click.option("--where", "predicate", metavar="PREDICATE", help="Only rows that match: SQL text or JSON.")

limit = click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Stop after N files.")

strategy = click.option(
    "--strategy",
    type=click.Choice(["auto", "reverse", "forward"]),
    help="Newest commits first, or the checkpoint first. [default: auto]",
)

order = click.option(
    "--order",
    type=click.Choice(["recent", "any"]),
    help="Newest commits first and then a metadata sidecar from its newest end, or as is cheapest. "
    "[default: recent with --limit]",
)

version = click.option(
    "--version", type=click.IntRange(min=0), metavar="N", help="The table at version N; the newest if left out."
)

timestamp = click.option(
    "--timestamp",
    metavar="TIME",
    help="The table as of a time in ISO 8601, in UTC where it names no zone; not together with --version.",
)


def _refuse_binary_on_terminal(ctx: click.Context, _: click.Parameter, output: str) -> str:
    if output == "arrow" and sys.stdout.isatty():
        msg = (
            f"Arrow output is binary: redirect it to a file or a program, as in --output arrow > {ctx.info_name}.arrow"
        )
        raise click.UsageError(msg)
    return output


def output_of(text: str, *more: str) -> Callable[[_F], _F]:
    """The flag `--output` of a command: text, JSON or another form."""
    forms = click.Choice(["text", "json", *more])
    return click.option("--output", type=forms, default="text", callback=_refuse_binary_on_terminal, help=text)


output = output_of("Lines for people, or one JSON object.")

files_output = output_of("Lines for people, a JSON object per line, an Arrow IPC stream, or CSV.", "arrow", "csv")

rows_output = output_of("A table for people, a JSON object per row, an Arrow IPC stream, or CSV.", "arrow", "csv")

summary = click.option(
    "--summary/--no-summary", default=None, help="What was read, on stderr at the end. [default: on a terminal]"
)

storage = click.option(
    "--storage-option",
    "storage_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_storage_options,
    help="An option of the store, such as account_key=...; may be repeated.",
)


def open_table(
    table: str, version: int | None, timestamp: str | None, storage_options: Mapping[str, str]
) -> TableHandle:
    """A table at a version, at a time, or as it is at its first use. Only a time is looked up at once.

    Raises:
        OptionError: Both a version and a time are set, or the time cannot be read.
    """
    from delta_sidecar.scan.config import LazyScanConfig
    from delta_sidecar.table.pinned import TableHandle

    config = LazyScanConfig(version=version, timestamp=timestamp)
    handle = TableHandle(table, version, storage_options)
    if config.timestamp is not None:
        handle.pin(timestamp=config.timestamp)
    return handle

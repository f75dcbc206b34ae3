"""What each feature costs: lines of the source and of its tests, as a table for docs/concepts/architecture.md."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "concepts" / "architecture.md"
START, END = "<!-- prices -->\n", "<!-- end of prices -->"

# A module counts for the first feature that names it, or its folder; of tests, likewise.
FEATURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "estimates": (("replay/estimate", "scan/estimate"), ("scan/test_estimate", "scan/test_sidecar_estimate")),
    "explain": (("scan/explain",), ("scan/test_explain", "scan/test_sidecar_explain")),
    "page tokens": (("scan/pages",), ("scan/test_paging", "scan/test_forged_tokens", "scan/paged")),
    "time travel and retention": (
        ("replay/versions", "scan/retention", "log/commit_times"),
        ("scan/test_time_travel", "scan/test_retention", "replay/test_time_travel"),
    ),
    "the seen-set": (("replay/seen",), ("replay/test_seen", "replay/test_spilled_runs")),
    "checkpoints as a base": (
        ("replay/bases/checkpoint",),
        ("replay/test_checkpoint", "scan/test_checkpoint"),
    ),
    "metadata sidecars as a base": (
        ("replay/bases/sidecar", "execute/piece"),
        ("scan/test_sidecar", "execute/test_piece"),
    ),
    "the sidecar format": (("sidecar",), ("sidecar",)),
    "replay: opening, tail, choice of a base": (("replay",), ("replay",)),
    "Parquet reading": (("execute/parquet",), ("execute/test_p", "execute/test_f", "execute/test_i")),
    "threads, fetching, JSON": (("execute",), ("execute",)),
    "plans and flows": (("plan",), ("plan",)),
    "the scanner": (("scan",), ("scan",)),
    "deletion vectors": (("log/deletion_vectors",), ("log/test_deletion", "log/roaring", "log/test_z85")),
    "Delta's log format": (("log",), ("log",)),
    "predicates": (("predicate",), ("predicate",)),
    "rows out of data files": (("rows",), ("rows",)),
    "DeltaTable": (("table",), ("table",)),
    "engines": (("connect",), ("connect",)),
    "building sidecars": (("build/",), ("build/",)),
    "cleaning up sidecars": (("maintain",), ("maintain",)),
    "inspect": (("health",), ("health",)),
    "Spark: sessions, ingestion, builds": (("spark",), ("spark",)),
    "the command": (("cli",), ("cli",)),
    "stores, credentials, accounting": (("store",), ("store",)),
    "synthetic logs": (("synth",), ("synth",)),
    "errors, events, options, metrics": (("",), ("", "builder", "conformance")),
}


def prices() -> dict[str, tuple[int, int]]:
    """Lines of source and of tests, by feature."""
    source, tests = (_lines(ROOT / folder) for folder in ("src/delta_sidecar", "tests"))
    return {
        feature: (_take(source, names), _take(tests, test_names)) for feature, (names, test_names) in FEATURES.items()
    }


def table() -> str:
    """The table in Markdown, the dearest first."""
    rows = sorted(prices().items(), key=lambda row: -row[1][0])
    text = "".join(f"| {feature} | {lines:,} | {tests:,} |\n" for feature, (lines, tests) in rows)
    return f"| feature | lines | lines of tests |\n|---|---|---|\n{text}"


def _lines(folder: Path) -> dict[str, int]:
    found = folder.rglob("*.py")
    return {path.relative_to(folder).with_suffix("").as_posix(): path.read_text().count("\n") for path in found}


def _take(modules: dict[str, int], names: tuple[str, ...]) -> int:
    chosen = [module for module in modules if module.startswith(names)]
    return sum(modules.pop(module) for module in chosen)


def main() -> None:
    """Prints the table, or puts it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put it into the architecture page")
    if not parser.parse_args().write:
        print(table(), end="")
        return
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()

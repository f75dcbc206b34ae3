"""Random folders of sidecars: whatever is in them, a clean-up takes no more than it may."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.maintain.vacuum_tables import BUILT, SidecarTable
from tests.scan.effort import examples
from tests.scan.reading import agrees_with_model

from delta_sidecar.maintain.vacuum import vacuum_sidecars

OWN = {f"v{version}.{end}" for version in BUILT for end in ("parquet", "manifest.json")}
VERSIONS = st.integers(0, 12)
DAYS = st.sampled_from([0, 1, 6.9, 7.1, 30])
NAMES = st.one_of(
    st.builds("v{}.parquet".format, VERSIONS),
    st.builds("v{}.{}.0000{}-{}.parquet".format, VERSIONS, st.sampled_from("ab"), *[st.integers(0, 1)] * 2),
    st.builds("v{}.manifest.json".format, VERSIONS),
    st.builds("v{}.segments.json".format, VERSIONS),
    st.builds("v{}.{}.segments.json".format, VERSIONS, st.sampled_from("ab")),
    st.builds("v{}.parquet.tmp-{:x}".format, VERSIONS, st.integers(0, 99)),
    st.from_regex(r"[a-z0-9-]{8}\.(parquet|json)", fullmatch=True),
)
CONTENTS = st.sampled_from(["ours", "not ours", "torn", "v1 manifest", "v5 manifest", "newer manifest", "empty"])
STRAYS = st.lists(st.tuples(NAMES.filter(lambda name: name not in OWN), CONTENTS, DAYS), max_size=12)
CHECKPOINTS = st.lists(
    st.tuples(
        st.sampled_from(["v1", "v1-multipart", "v2-json", "v2-parquet", "v2-classic"]), st.lists(NAMES, max_size=2)
    ),
    max_size=3,
)


def put(made: SidecarTable, name: str, content: str, days: float) -> None:
    if content in {"ours", "not ours"}:
        made.put_data(name, days, ours=content == "ours")
        return
    manifest = (made.folder / "v5.manifest.json").read_bytes()
    newer = json.dumps({**json.loads(manifest), "format_version": 2}).encode()
    first = (made.folder / "v1.manifest.json").read_bytes()
    texts = {"torn": manifest[:100], "v1 manifest": first, "v5 manifest": manifest, "newer manifest": newer}
    made.put(name, texts.get(content, b""), days)


def refer(made: SidecarTable, checkpoints: list[tuple[str, list[str]]]) -> set[str]:
    """Writes checkpoints, and gives the names of their sidecars."""
    referred: set[str] = set()
    for number, (kind, leaves) in enumerate(checkpoints):
        made.table.commit([{"commitInfo": {"number": number}}])
        if kind.startswith("v1"):
            made.table.checkpoint(kind)
            continue
        free = {name for name in leaves if name.endswith(".parquet")} - OWN - referred
        made.v2_checkpoint(kind, *sorted(free))
        referred |= free
    return referred


@pytest.mark.full
@examples(60)
@given(
    strays=STRAYS,
    checkpoints=CHECKPOINTS,
    ages=st.tuples(*[DAYS] * len(BUILT)),
    torn=st.sampled_from([None, *BUILT]),
    keep=st.integers(1, 3),
)
def test_nothing_goes_that_is_needed(
    template: SidecarTable,
    strays: list[tuple[str, str, float]],
    checkpoints: list[tuple[str, list[str]]],
    ages: tuple[float, ...],
    torn: int | None,
    keep: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = template.copy(Path(folder) / "table")
        for version, days in zip(BUILT, ages, strict=True):
            for end in ("parquet", "manifest.json"):
                made.put(f"v{version}.{end}", (made.folder / f"v{version}.{end}").read_bytes(), days)
        for name, content, days in strays:
            put(made, name, content, days)
        if torn is not None:
            made.put(f"v{torn}.manifest.json", b"{torn")
        referred = refer(made, checkpoints)
        before = made.names()
        ages_of = {path.name: path.stat().st_mtime for path in made.folder.iterdir()}
        summary = vacuum_sidecars(made.root, keep=keep)
        gone = before - made.names()
        assert gone == {file.path.rpartition("/")[2] for file in summary.deleted}
        assert not gone & referred, "a V2-checkpoint sidecar"
        usable = [version for version in reversed(BUILT) if version != torn][:keep]
        for version in usable:
            assert not gone & {f"v{version}.parquet", f"v{version}.manifest.json"}, "a usable one"
        newest = max(path.stat().st_mtime for path in made.table.log.rglob("*") if path.is_file())
        assert all(newest - ages_of[name] >= 7 * 86_400 - 1 for name in gone), "a young one"
        ours = {name for name, content, _ in strays if content == "ours"}
        assert {name for name in gone if name.endswith(".parquet")} <= OWN | ours, "one that is not proven to be ours"
        assert not any(name for name in gone if not name.startswith("v")), "an unknown one"
        assert {file.path.rpartition("/")[2] for file in summary.unknown} <= made.names()
        agrees_with_model(made.table)
        assert vacuum_sidecars(made.root, keep=keep).deleted == (), "one run does it all"

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.log.names import (
    SidecarFileKind,
    SidecarName,
    manifest_name,
    parse_sidecar_name,
    part_name,
    segments_name,
    sidecar_name,
)

VERSIONS = st.integers(0, 2**63 - 1)
BUILDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=32)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v0.parquet", SidecarName(SidecarFileKind.DATA, 0)),
        ("v12.parquet", SidecarName(SidecarFileKind.DATA, 12)),
        ("v12.manifest.json", SidecarName(SidecarFileKind.MANIFEST, 12)),
        ("v12.segments.json", SidecarName(SidecarFileKind.SEGMENTS, 12)),
        ("v12.segments.segments.json", SidecarName(SidecarFileKind.SEGMENTS, 12, "segments")),
        ("v12.4fa0.00003-1.parquet", SidecarName(SidecarFileKind.PART, 12, "4fa0", 3, 1)),
        ("v12.x.123456-0.parquet", SidecarName(SidecarFileKind.PART, 12, "x", 123456, 0)),
        (f"v{2**63 - 1}.parquet", SidecarName(SidecarFileKind.DATA, 2**63 - 1)),
    ],
)
def test_names_of_files(name: str, expected: SidecarName) -> None:
    assert parse_sidecar_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "v.parquet",
        "v012.parquet",
        "v-1.parquet",
        "V12.parquet",
        "v12.parquet ",
        "v12.parquet\n",
        "v12.PARQUET",
        "v\u0661\u0662.parquet",
        "v12",
        "12.parquet",
        f"v{2**63}.parquet",
        "v" + "9" * 5_000 + ".parquet",
        "v12.manifest.parquet",
        "v12.segments.parquet",
        "v12.a.manifest.json",
        "v12.a.parquet",
        "v12.A.00000-0.parquet",
        "v12.a.0000-0.parquet",
        "v12.a.000000-0.parquet",
        "v12.a.00000-00.parquet",
        "v12..00000-0.parquet",
        "v12." + "a" * 33 + ".00000-0.parquet",
        "../v12.parquet",
        "/v12.parquet",
        "x/v12.parquet",
        "v12.parquet/../v13.parquet",
        "80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
        "",
    ],
)
def test_names_of_other_files(name: str) -> None:
    assert parse_sidecar_name(name) is None


@given(VERSIONS, BUILDS, st.integers(0, 999_999_999), st.integers(0, 999_999_999))
def test_names_are_taken_apart_again(version: int, build: str, part: int, attempt: int) -> None:
    made = SidecarName(SidecarFileKind.PART, version, build, part, attempt)
    assert parse_sidecar_name(part_name(version, build, part, attempt)) == made
    assert parse_sidecar_name(segments_name(version, build)) == SidecarName(SidecarFileKind.SEGMENTS, version, build)
    assert parse_sidecar_name(segments_name(version)) == SidecarName(SidecarFileKind.SEGMENTS, version)
    assert parse_sidecar_name(sidecar_name(version)) == SidecarName(SidecarFileKind.DATA, version)
    assert parse_sidecar_name(manifest_name(version)) == SidecarName(SidecarFileKind.MANIFEST, version)


@pytest.mark.parametrize(
    ("version", "build", "part", "attempt"),
    [
        (-1, "a", 0, 0),
        (2**63, "a", 0, 0),
        (1, "", 0, 0),
        (1, "A", 0, 0),
        (1, "a/b", 0, 0),
        (1, "a", -1, 0),
        (1, "a", 0, -1),
    ],
)
def test_bad_names_are_not_made(version: int, build: str, part: int, attempt: int) -> None:
    with pytest.raises(ValueError, match="not "):
        part_name(version, build, part, attempt)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.sidecar.schema import column_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("a",), "a"),
        (("a", "b"), "a.b"),
        (("a.b",), "`a.b`"),
        (("a", "b.c", "d"), "a.`b.c`.d"),
        (("a`b",), "`a``b`"),
        (("",), "``"),
        (("", ""), "``.``"),
        (("`",), "````"),
        (("a b", "\n"), "a b.\n"),
    ],
)
def test_names_of_columns(path: tuple[str, ...], name: str) -> None:
    assert column_name(path) == name


PATHS = st.lists(st.text(max_size=5) | st.text(".`a", max_size=4), min_size=1, max_size=4).map(tuple)


@given(PATHS, PATHS)
def test_two_columns_have_two_names(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (column_name(one) == column_name(other)) == (one == other)


def test_a_column_has_a_name() -> None:
    with pytest.raises(ValueError, match="at least one name"):
        column_name(())

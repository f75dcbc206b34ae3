"""Our reader of SQL beside sqlglot, on texts that are mostly predicates and on some that are not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from tests.predicate import sqlglot_reader
from tests.predicate.trees import trees

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicate import And, Column, Comparison, In, IsNull, Like, Not, Or, Predicate, parse

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _without_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sqlglot does not know, it logs."""
    monkeypatch.setattr(logging.getLogger("sqlglot"), "disabled", True)


def read_or_refused(read: Callable[[str], Predicate], text: str) -> str | None:
    """The tree of a text, as text; None if it is refused."""
    try:
        return repr(plain(read(text)))
    except (PredicateError, sqlglot_reader.Refused):
        return None


def plain(node: Predicate) -> Predicate:
    """Says NOT a IS NULL as a IS NOT NULL, between which sqlglot does not tell."""
    if isinstance(node, And | Or):
        return type(node)(tuple(plain(term) for term in node.terms))
    if isinstance(node, Not):
        inner = plain(node.term)
        return (
            IsNull(inner.column, negated=True) if inner == IsNull(getattr(inner, "column", Column(()))) else Not(inner)
        )
    return node


# --- texts -----------------------------------------------------------------------------------------------------

_names = st.sampled_from(
    (
        *("a", "B_1", "a.b", "a . b . c.d.e", "`x y`", "`a``b`.c", "`select`", '"q"', '"q"."r"', "a.`b`"),
        *("date", "timestamp", "é", "comment", "a.where", "hour", "all", "x", "$v", "_"),
    )
)
_numbers = st.one_of(
    st.integers(0, 10**20).map(str),
    st.decimals(0, 10**6, places=3).map(str),
    st.sampled_from(["1.", ".5", "1e3", "1E-3", "2.5e+1", "007"]),
)
_strings = st.text(st.sampled_from("ab'\"`\\%_-/*;é\n"), max_size=6)
_quoted = _strings.map(lambda text: "'" + text.replace("'", "''") + "'")
_moments = st.sampled_from(
    ["2026-02-08", "2026-02-08 10:00", "2026-02-08T10:00:00.25Z", "2026-02-08 10:00:00+05:30", "2026-02-30", "soon"]
)
_types = st.sampled_from(
    (
        *("DATE", "date", "TIMESTAMP", "TIMESTAMP_NTZ", "timestamptz", "TIMESTAMP_LTZ", "DATETIME"),
        *("TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITHOUT TIME ZONE"),
        *("DOUBLE", "DOUBLE PRECISION", "REAL", "float8", "INT", "STRING", "TIME"),
    )
)
_typed = st.builds(
    lambda form, type_, text: form.format(type_, text),
    st.sampled_from(
        ["{0} '{1}'", "CAST('{1}' AS {0})", "'{1}'::{0}", "TRY_CAST(('{1}') AS {0})", 'CAST("{1}" AS {0})']
    ),
    _types,
    _moments | st.sampled_from(["5", "-1.5", "NaN", "-Infinity"]),
)
_literals = st.recursive(
    st.one_of(
        _numbers,
        _quoted,
        _strings.map(lambda text: '"' + text.replace('"', '""') + '"'),
        _typed,
        st.sampled_from(["NULL", "null", "TRUE", "False", "X'00fF'", "x''", "X'0'"]),
    ),
    lambda inner: st.builds("{}{}".format, st.sampled_from(["-", "- ", "+", "- - "]), inner) | inner.map("({})".format),
    max_leaves=2,
)
_operands = st.one_of(_names, _names, _literals, _literals, _names.map("(({}))".format))
_signs = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"])
_nots = st.sampled_from(["", "NOT ", "not\n"])

_comparisons = st.one_of(
    st.builds("{} {} {}".format, _operands, _signs, _operands),
    st.builds("{}{}{}".format, _names, _signs, _quoted | _numbers),
    st.builds("{} {}IN ({})".format, _operands, _nots, st.lists(_literals, max_size=4).map(", ".join)),
    st.builds("{} {}BETWEEN {} AND {}".format, _operands, _nots, _literals, _literals),
    st.builds("{} {}LIKE {}".format, _operands, _nots, _literals),
    st.builds("{} {}LIKE {} ESCAPE {}".format, _names, _nots, _quoted, st.sampled_from(["'!'", "'\\'", "''", "'ab'"])),
    st.builds("{} IS {}{}".format, _operands, _nots, st.sampled_from(["NULL", "TRUE", "false", "UNKNOWN", "5"])),
    st.builds("{} IS {}DISTINCT FROM {}".format, _operands, _nots, _operands),
    st.builds("{} {}".format, _names, st.sampled_from(["NOTNULL", "NOT NULL"])),
    _operands,
)
# Between two words, what parts them is a space, a line or a comment.
_spaces = st.sampled_from([" ", " ", "\t", "\n", " -- or not\n", " /* and */ ", "/* a /* b */ c */"])
_texts = st.recursive(
    _comparisons,
    lambda inner: st.one_of(
        st.builds("{}{}{}{}{}".format, inner, _spaces, st.sampled_from(["AND", "OR", "and", "Or"]), _spaces, inner),
        st.builds("({}{})".format, inner, _spaces),
        st.builds("NOT{}{}".format, _spaces, inner),
    ),
    max_leaves=6,
)
# As the words of a predicate come when nobody puts them in order.
_words = st.sampled_from(
    (
        *("a", "b", "a.b", "`c d`", '"q"', "x", "date", "all", "1", "2.5", "-3", "1e5", "1e", "'x'", "''", "X'0F'"),
        *("NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP", "'2026-01-01'", "CAST(", "AS", "DOUBLE", "::"),
        *("(", "(", ")", ")", ",", "=", "==", "!=", "<", ">=", "<=>", "AND", "OR", "NOT", "+", "-", "*", "||"),
        *("IN(", "LIKE", "BETWEEN", "ESCAPE", "'!'", "DISTINCT", "FROM", "NOTNULL", "IS NULL", "IS NOT", "IN (1, 2)"),
        *("LIKE 'x%'", "BETWEEN 1 AND", "= 1", "a = 1", "b IS TRUE", "--", "/*", "*/", "[", "?", "@", "CASE"),
        *("upper(", "any", "WHERE", "SELECT"),
    )
)


# --- tests -----------------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_texts)
@example("a = -'5'::double AND b <=> NULL")
def test_predicates_are_read_as_sqlglot_reads_them(text: str) -> None:
    expected = read_or_refused(sqlglot_reader.read, text)
    note(f"{text!r} -> {expected}")
    assert read_or_refused(parse, text) == expected


@settings(max_examples=400, deadline=None)
@given(st.lists(_words, min_size=1, max_size=9).map(" ".join))
def test_what_sqlglot_refuses_is_refused(text: str) -> None:
    assert read_or_refused(parse, text) == read_or_refused(sqlglot_reader.read, text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees)
def test_sqlglot_reads_what_is_written(tree: Predicate) -> None:
    assert plain(sqlglot_reader.read(str(tree))) == plain(tree)


def test_every_word_can_be_a_name() -> None:
    """Each keyword of sqlglot is quoted where it has to be, here and there."""
    words = sqlglot_reader.keywords()
    assert len(words) > 100
    for word in sorted(words):
        for path in ((word,), ("a", word), (word, "b"), ("a", "b", "c", "d", word)):
            column = Column(path)
            for predicate in (
                Comparison("=", column, 1),
                IsNull(column),
                In(column, (1, 2)),
                Not(Like(column, "x%")),
            ):
                assert parse(str(predicate)) == predicate
                assert sqlglot_reader.read(str(predicate)) == predicate


def test_the_comparison_itself_can_tell() -> None:
    assert read_or_refused(sqlglot_reader.read, "a = 1") != read_or_refused(parse, "a = 2")
    assert read_or_refused(sqlglot_reader.read, "a + 1 = 2") is None
    assert read_or_refused(sqlglot_reader.read, "NOT a IS NULL") == read_or_refused(parse, "a IS NOT NULL")

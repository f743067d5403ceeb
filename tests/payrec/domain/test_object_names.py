"""Patterns of names, compared with a plain definition of what they mean, and in bounded time."""

from __future__ import annotations

import posixpath
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.constants.sources import OBJECT_NAME_LENGTH_MAX, SOURCE_PATTERN_LENGTH_MAX
from payrec.domain.object_names import fixed_beginning, is_usable, matches

NAMES = st.text("ab/.", max_size=8)
PARTS = ["a", "b", "/", "a/", ".", "?", "*", "**"]
FILLINGS = {
    "?": st.sampled_from("ab/."),
    "*": st.text("ab/.", max_size=2),
    "**": st.text("ab/.", max_size=3),
}


def with_name(parts: list[str]) -> st.SearchStrategy[tuple[str, str]]:
    """Draw a name for a pattern, most of which fit but for a slash where none may be."""
    filled = st.tuples(*(FILLINGS.get(part, st.just(part)) for part in parts)).map("".join)
    return st.tuples(st.just("".join(parts)), filled | NAMES)


PATTERNS_WITH_NAMES = st.lists(st.sampled_from(PARTS), max_size=8).flatmap(with_name)


def fits(pattern: str, name: str) -> bool:
    """Say what a pattern means, by trying everything."""
    if pattern == "":
        return name == ""
    if pattern.startswith("**"):
        return any(fits(pattern[2:], name[n:]) for n in range(len(name) + 1))
    if pattern[0] == "*":
        return any(fits(pattern[1:], name[n:]) for n in range(len(name) + 1) if "/" not in name[:n])
    if name == "":
        return False
    return (pattern[0] == name[0] or (pattern[0] == "?" and name[0] != "/")) and fits(pattern[1:], name[1:])


@settings(max_examples=300)
@given(PATTERNS_WITH_NAMES)
def test_a_pattern_means_what_it_says(drawn: tuple[str, str]) -> None:
    assert matches(*drawn) == fits(*drawn)


@pytest.mark.parametrize(
    ("pattern", "name", "fit"),
    [
        ("*", "a/b", False),
        ("?", "/", False),
        ("**", "a/b", True),
        # All of the pattern is met before the name is at its end.
        ("bcd*efgh", "bcdefghefgh", True),
        ("a\nb", "a\nb", True),
        ("a\nb", "ab", False),
    ],
)
def test_a_pattern_fits_whole_names(pattern: str, name: str, *, fit: bool) -> None:
    assert matches(pattern, name) is fit


@settings(max_examples=200)
@given(PATTERNS_WITH_NAMES)
def test_what_fits_begins_as_every_name_that_fits(drawn: tuple[str, str]) -> None:
    pattern, name = drawn
    if matches(pattern, name):
        assert name.startswith(fixed_beginning(pattern))


@pytest.mark.parametrize(
    ("pattern", "beginning"),
    [
        ("in/2026/*.csv", "in/2026/"),
        ("in/20?6/a*", "in/"),
        ("a/b/c.csv", "a/b/"),
        ("[a]/b/*", "[a]/b/"),
        ("*.csv", ""),
        ("a*", ""),
        ("a/**/b/*", "a/"),
    ],
)
def test_where_names_begin_is_told_without_a_star(pattern: str, beginning: str) -> None:
    assert fixed_beginning(pattern) == beginning


def test_no_pattern_takes_long() -> None:
    pattern = ("**a" * SOURCE_PATTERN_LENGTH_MAX)[: SOURCE_PATTERN_LENGTH_MAX - 1] + "b"
    began = time.process_time()
    assert not matches(pattern, "a" * OBJECT_NAME_LENGTH_MAX)
    assert time.process_time() - began < 2


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["a", "é ", "a.b", ".", "..", "..a", "", "\x00", "a\x7f", "\ud800"]), max_size=4).map(
        "/".join
    )
)
def test_what_names_its_own_place_is_usable(name: str) -> None:
    place = f"/in/{name}"
    assert is_usable(name) == (name.isprintable() and posixpath.normpath(place) == place)


@given(st.text(max_size=20))
def test_a_usable_name_stays_below_its_place(name: str) -> None:
    if is_usable(name):
        assert not name.startswith("/")
        assert ".." not in name.split("/")
        assert name.encode().decode() == name


def test_names_that_are_not_usable() -> None:
    for name in ("", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\x00", "a\nb", "\ud800", "x" * 1_025):
        assert not is_usable(name), name
    for name in ("a", "a/b.csv", "Übersicht 1+1 (2).csv", "..a", "a..b", "x" * 1_024):
        assert is_usable(name), name

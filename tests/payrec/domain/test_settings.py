"""Merge patches of settings, as RFC 7396 has them."""

from __future__ import annotations

from typing import Any

import pytest

from payrec.domain.settings import merged


@pytest.mark.parametrize(
    ("target", "patch", "after"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {"z": None}, {"a": 1}),
    ],
)
def test_the_examples_of_the_rfc(target: dict[str, Any], patch: dict[str, Any], after: dict[str, Any]) -> None:
    before = repr(target)
    assert merged(target, patch) == after
    assert repr(target) == before

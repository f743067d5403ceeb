"""The list of guards is about the code as it is. That tests miss each of them is seen by ``remove.py``, by hand."""

from __future__ import annotations

import ast

import pytest

from guards.remove import TESTS, Guard, guards


@pytest.mark.parametrize("guard", guards(), ids=lambda guard: guard.keeps)
def test_a_guard_is_there_once_and_can_be_taken_away(guard: Guard) -> None:
    ast.parse(guard.removed())
    assert guard.tests
    for name in guard.tests:
        assert (TESTS / name).exists(), name

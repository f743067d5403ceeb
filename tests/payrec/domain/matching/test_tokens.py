"""Tokens of remittance texts: the short way for plain texts says what the long way says of every text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payrec.domain.matching import tokens

WORDS = st.sampled_from(
    ["INV", "inv-17017", "2024", "00017", "A", "RF18", "5390", "R-F1", "-", "x1", "a1b2", "A12345B12345C", "12", "é"]
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "  ", "", "/", "\t", "\x1c"])), max_size=30)


@example("LONG" * 70 + " 1234")
@example(f"{'1' * 300} A1 {'2' * 40}")
@given(TEXTS.map(lambda parts: "".join(map("".join, parts))) | st.text(max_size=300))
def test_plain_texts_have_the_tokens_of_any_text(text: str) -> None:
    found = tokens._plain_tokens(text) if text.isascii() else None
    assert found is None or found == [token.encode() for token in tokens._tokens(text)]


@pytest.mark.parametrize("text", ["Invoice INV-00017 thanks", "Rechnung 2024 00 17 A", "Kd123456x", "x" * 50 + " 1 2"])
def test_usual_texts_are_plain(text: str) -> None:
    assert tokens._plain_tokens(text) is not None


@pytest.mark.parametrize("text", ["SVWZ+INV-17017", "RF18 5390 0754 7034", "A12345B12345C", "1 " * 25])
def test_others_are_not(text: str) -> None:
    assert tokens._plain_tokens(text) is None


def test_a_word_that_keeps_the_check_digits_right_does_not_hide_the_reference() -> None:
    found = tokens.tokens_of("Invoice, RF17 7406 2023 3039 1725 thank you")
    assert {b"RF177406202330391725", b"RF177406202330391725THANK"} <= set(found)

"""Tokens of remittance texts: the short way for plain texts says what the long way says of every text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payrec.constants import REMITTANCE_WORDS_MAX
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


def test_words_come_before_joins_of_neighbours_one_of_which_has_a_digit() -> None:
    joins = [b"ORDER1001", b"1001OF", b"OF2002", b"FORORDER1001", b"ORDER1001OF", b"1001OF2002"]
    joins += [b"FORORDER1001OF", b"ORDER1001OF2002"]
    assert tokens.tokens_of("for order 1001 of 2002") == [b"1001", b"2002", *joins, b"FORORDER1001OF2002"]


@pytest.mark.parametrize("text", ["Rate 1 von 4 Police {}", "Rate 1 von 4, Police {}", "Raté 1 von 4 Police {}"])
def test_a_text_that_is_nothing_but_a_reference_quotes_it_however_many_words_it_has(text: str) -> None:
    whole = b"RATE1VON4POLICE502751"
    assert (whole in tokens.tokens_of(text.format(502751))) == ("," not in text)
    assert whole + b"0" * 15 not in tokens.tokens_of(text.format(f"502751{'0' * 15}"))


def test_a_word_that_keeps_the_check_digits_right_does_not_hide_the_reference() -> None:
    found = tokens.tokens_of("Invoice, RF17 7406 2023 3039 1725 thank you")
    assert {b"RF177406202330391725", b"RF177406202330391725THANK"} <= set(found)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("für INV_17017", b"INV17017"),
        ("INV-17017, RF18 5390 0754 7034", b"INV17017"),
        ("für rf95 2348 2000 0000 0000 0000 0", b"RF95234820000000000000000"),
        ("ＲＦ９５ ２３４８ ２０００ ００００ ００００ ００００ ０", b"RF95234820000000000000000"),
        ("half of a character \ud800 INV-17017", b"INV17017"),
    ],
)
def test_what_other_texts_quote(text: str, token: bytes) -> None:
    assert token in tokens.tokens_of(text)


@pytest.mark.parametrize("text", ["{} thanks", "für {}"])
def test_words_are_joined_up_to_the_longest_reference_that_a_bank_carries(text: str) -> None:
    longest = b"INVOICE2026" + b"0" * 24
    assert longest in tokens.tokens_of(text.format(f"INVOICE2026 {'0' * 24}"))
    assert longest + b"0" not in tokens.tokens_of(text.format(f"INVOICE2026 {'0' * 25}"))


def test_what_is_written_together_may_be_longer() -> None:
    payout = b"PAYOUT3F2B8C1D4E5F60718293A4B5C6D7E8F9"
    assert payout in tokens.tokens_of("PAYOUT/3f2b8c1d4e5f60718293a4b5c6d7e8f9")
    assert payout not in tokens.tokens_of("PAYOUT 3f2b8c1d4e5f60718293a4b5c6d7e8f9")


def test_the_first_words_of_a_very_long_text_are_looked_at() -> None:
    thanks = ["thanks"] * REMITTANCE_WORDS_MAX
    assert b"INV17017" in tokens.tokens_of(" ".join(["INV-17017", *thanks]))
    assert tokens.tokens_of(" ".join([*thanks, "INV-17017", "thanks"])) == []


@pytest.mark.parametrize("between", [", ", ",", " ,", "; ", ";", " / ", " + ", "+", " & ", "&", " | "])
def test_numbers_of_a_list_are_not_joined(between: str) -> None:
    found = tokens.tokens_of(f"RE-2026-1{between}2{between}3 paid")
    assert {b"RE20261", b"2", b"3"} <= set(found)
    assert not {b"RE202612", b"RE2026123", b"20261", b"23"} & set(found) - {b"20261"}


@pytest.mark.parametrize("text", ["RE 2026 17", "RE-2026-17", "RE/2026/17", "RE 2026/17", "RE_2026 17"])
def test_words_of_one_number_are_joined(text: str) -> None:
    assert b"RE202617" in tokens.tokens_of(f"paid {text} thanks")


@pytest.mark.parametrize("day", ["2026-03-10", "2026-03-10T14:33", "2026-03-10t14:33:07Z", "10.03.2026", "1.3.26"])
def test_a_day_is_no_number(day: str) -> None:
    assert not [token for token in tokens.tokens_of(f"paid on {day} for RE-17") if b"2026" in token or b"13" in token]
    assert b"RE17" in tokens.tokens_of(f"paid on {day} for RE-17")


@pytest.mark.parametrize("number", ["2026-0310", "RE-2026-03-10", "2026-13-10", "2026-03-10-7", "20260310", "1.2.3"])
def test_a_number_that_is_no_day_is_one(number: str) -> None:
    assert number.replace("-", "").replace(".", "").encode() in tokens.tokens_of(f"paid on {number} thanks")


@pytest.mark.parametrize("text", ["RE2026-0042VOM12.03.2026", "RE20260042VOM danke", "RE-2026-0042vom", "RE20260042é"])
def test_a_number_stands_alone_where_the_next_word_is_glued_to_it(text: str) -> None:
    assert (b"RE20260042" in tokens.tokens_of(text)) == (not text.endswith("é"))


def test_a_number_that_goes_on_with_a_letter_is_not_cut() -> None:
    assert b"RE20260042" not in tokens.tokens_of("RE20260042A and RE20260042B7")
    assert b"RE2026" not in tokens.tokens_of("RE2026VOM")

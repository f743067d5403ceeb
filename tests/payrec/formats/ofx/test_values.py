from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.formats.base import RecordError
from payrec.formats.ofx.tags import plain_fields, split_tags, value_of
from payrec.formats.ofx.values import created_at, day, signed_minor


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("-11.76", "EUR", -1176),
        ("-11,76", "EUR", -1176),
        (" - 11,76 ", "EUR", -1176),
        ("+00000000000115.8300", "USD", 11583),
        ("-00000000001500.0000", "USD", -150000),
        ("1 234,5", "EUR", 123450),
        ("1\u00a0234.5", "EUR", 123450),
        ("1,234.56", "EUR", 123456),
        ("-1.234.567,89", "EUR", -123456789),
        (".5", "EUR", 50),
        ("5.", "EUR", 500),
        ("-0", "EUR", 0),
        ("120", "JPY", 120),
        ("1,234", "KWD", 1234),
        ("0,500", "EUR", 50),
        ("1000,000", "EUR", 100000),
    ],
)
def test_amounts(amount: str, currency: str, minor: int) -> None:
    assert signed_minor(amount, currency) == minor


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("", "invalid_amount"),
        ("-", "invalid_amount"),
        ("$5", "invalid_amount"),
        ("5-", "invalid_amount"),
        ("(5)", "invalid_amount"),
        ("1,23.45", "invalid_amount"),
        ("1.234,5.6", "invalid_amount"),
        ("1,234,567", "invalid_amount"),
        ("1,000", "invalid_amount"),
        ("999,999", "invalid_amount"),
        ("1e5", "invalid_amount"),
        ("٥", "invalid_amount"),
        ("115.8331", "amount_precision"),
        ("1" * 16, "invalid_amount"),
        ("1" * 9999, "invalid_amount"),
    ],
)
def test_amounts_that_are_none_are_never_guessed(amount: str, code: str) -> None:
    with pytest.raises(RecordError) as caught:
        signed_minor(amount, "EUR")
    assert caught.value.code == code


@given(st.integers(-(10**14), 10**14))
def test_written_amount_is_read_back(minor: int) -> None:
    text = f"{'-' if minor < 0 else ''}{abs(minor) // 100}.{abs(minor) % 100:02}"
    assert signed_minor(text, "EUR") == minor
    assert signed_minor(text.replace(".", ","), "EUR") == minor
    assert signed_minor(f"{minor / 100:,.2f}" if abs(minor) < 10**12 else text, "EUR") == minor


@pytest.mark.parametrize(
    ("moment", "on"),
    [
        ("20090401", date(2009, 4, 1)),
        ("20090401122017.000[-5:EST]", date(2009, 4, 1)),
        ("20261231235959[+14]", date(2026, 12, 31)),
        ("20240230", date(2024, 2, 29)),
    ],
)
def test_day_is_the_first_eight_digits(moment: str, on: date) -> None:
    assert day(moment)[0] == on


@pytest.mark.parametrize(
    "moment", ["", "2026", "2026-01-02", "00000101", "20261301", "20260100", "2026010x", "²0260101"]
)
def test_day_that_is_none(moment: str) -> None:
    with pytest.raises(RecordError) as caught:
        day(moment)
    assert caught.value.code == "invalid_date"


def test_time_of_an_answer() -> None:
    assert created_at("20260201083000.123[-5:EST]") == "2026-02-01T08:30:00-05:00"
    assert created_at("20260201083000[+5.5:IST]") == "2026-02-01T08:30:00"
    assert created_at("20260201083000") == "2026-02-01T08:30:00"
    assert created_at("20260201250000") == "2026-02-01"
    assert created_at("soon") is None


def test_entities_are_resolved_once_and_known_ones_alone() -> None:
    assert value_of("R&amp;D &lt;b&gt; &quot;x&quot; &apos;y&apos;&nbsp;&#233;&#xE9;") == "R&D <b> \"x\" 'y' éé"
    assert (
        value_of("&amp;lt; A&B &copy &notit; &#0; &#x110000; AT&T;") == "&lt; A&B &copy &notit; &#0; &#x110000; AT&T;"
    )
    assert value_of("<![CDATA[a & b]]>") == "a & b"


def test_plain_fields_are_told_from_others() -> None:
    assert plain_fields("<A>1\n<B.C> two words \n</B.C><C>3") == {"A": "1", "B.C": "two words", "C": "3"}
    for other in (
        "</A>",
        "<A>1</B>",
        "<A>1</ x",
        "<A>1</A",
        "<A>1</A >",
        "<A>1<B>",
        "<A>1<A>2",
        "<a>1",
        "<A>1 < 2",
        "<A/>",
        "<P><N>x</P>",
        '<A b="c">1',
        "<A>1<!-- x -->",
    ):
        assert plain_fields(other) is None, other


_NAMES = st.sampled_from(["NAME", "MEMO", "TRNAMT", "FITID"])
_PART = st.one_of(
    st.tuples(_NAMES, st.text(alphabet="ab 1&;\n", max_size=5)).map(lambda pair: f"<{pair[0]}>{pair[1]}"),
    _NAMES.map(lambda name: f"</{name}>"),
)


@given(st.lists(_PART, max_size=8))
def test_plain_fields_are_what_going_from_tag_to_tag_finds(parts: list[str]) -> None:
    text = "".join(parts)
    fields = plain_fields(text)
    before, tags = split_tags(text)
    found = [(name, behind.strip()) for slash, name, _, behind in tags if not slash]
    if fields is not None:
        assert list(fields.items()) == found
    else:
        ends = {name for slash, name, _, _ in tags if slash}
        assert len(dict(found)) < len(found) or any(not value for _, value in found) or ends - dict(found).keys()
    assert before + "".join(f"<{slash}{name}{rest}>{behind}" for slash, name, rest, behind in tags) == text

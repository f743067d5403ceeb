"""What an erasure finds in a text, what it leaves of it, and that what is looked for in the database is no less."""

from __future__ import annotations

import unicodedata
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.erasures import ERASED, Wanted, is_about, kept_until, redacted_row, wanted

WORDS = ("Anna", "Müller", "Öztürk", "René", "Groß", "van", "O'Neil", "Жанна", "山田")
SPELLINGS = st.sampled_from((str.upper, str.lower, str.title, lambda word: unicodedata.normalize("NFD", word)))
AROUND = st.text("ab zé.,-/:7\n", max_size=12)


def spelled(name: str) -> st.SearchStrategy[str]:
    """Return ways in which banks and people write a name."""

    def written(how: tuple[Any, str, bool, bool]) -> str:
        change, between, is_last_first, is_transliterated = how
        words = name.split()
        if is_last_first:
            words = words[-1:] + words[:-1]
        text = between.join(words)
        if is_transliterated:
            for letter, two in (("ü", "ue"), ("ö", "oe"), ("Ö", "Oe"), ("ß", "ss")):
                text = text.replace(letter, two)
        return str(change(text))

    return st.tuples(SPELLINGS, st.sampled_from((" ", "  ", ", ", "-", "/")), st.booleans(), st.booleans()).map(written)


NAMES = st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(" ".join)


@given(NAMES.flatmap(lambda name: st.tuples(st.just(name), spelled(name))), AROUND, AROUND)
def test_a_name_is_found_however_it_is_written_and_nothing_else_goes(
    named: tuple[str, str], before: str, after: str
) -> None:
    name, written = named
    what = Wanted(name)
    before, after = f"{before} ", f" {after}"
    text = f"{before}{written}{after}"
    assert what.is_meant(written)
    assert what.is_in(text)
    left = what.redacted(text)
    assert left == f"{before}{ERASED}{after}"
    assert not what.is_in(left)
    assert what.without({"a": [text, {written: 1}], "b": None}) == {"a": [left, {written: 1}], "b": None}
    # The database looks for these, in small letters and without accents.
    folded = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    assert all(probe in folded.replace("ß", "ss") for probe in what.probes)


@given(st.text(max_size=30))
def test_any_text_may_be_looked_through(text: str) -> None:
    for what in (Wanted("Anna Müller"), Wanted("DE89 3704", is_account=True)):
        left = what.redacted(text)
        assert what.is_in(text) == (left != text)
        assert not what.is_in(left)


@pytest.mark.parametrize(
    "text", ["Hannah Müller", "Anna Müllers", "AnnaMüller", "Anna M.", "Anna, Bolt und Müller", "Müller, Annabel"]
)
def test_who_is_called_nearly_so_stays(text: str) -> None:
    assert Wanted("Anna Müller").redacted(text) == text


def test_the_words_of_a_name_in_any_order_are_the_name_where_nothing_else_is() -> None:
    what = Wanted("Anna Maria Müller")
    for text in ("Müller Maria Anna", "MUELLER, MARIA, ANNA"):
        assert what.is_meant(text)
        assert what.is_in(text)
        assert what.redacted(text) == ERASED
    assert not what.is_in("Müller Maria Anna and Bolt")
    assert what.redacted("Müller Maria Anna and Bolt") == "Müller Maria Anna and Bolt"


def test_what_is_written_behind_the_last_letter_goes_with_it() -> None:
    what = Wanted("Anna Lu")
    assert what.redacted("anna lue, anna lu\u0308 and Anna Lu") == f"{ERASED}, {ERASED} and {ERASED}"
    assert what.redacted("ANNA LUX") == "ANNA LUX"
    assert Wanted("Xe Axel").redacted("XE AXEL") == ERASED
    assert not Wanted("Axl").is_in("AXEL")


def test_legal_forms_count() -> None:
    assert not Wanted("Bolt GmbH").is_meant("Bolt AG")
    assert Wanted("Bolt GmbH").redacted("BOLT GMBH, Bolt AG") == f"{ERASED}, Bolt AG"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("de89 3704 0044 0532 0130 00", ERASED),
        ("IBAN:DE89370400440532013000/x", f"IBAN:{ERASED}/x"),
        ("DE89370400440532013001", "DE89370400440532013001"),
        ("DE89-3704-0044 0532.0130 00 and DE89370400440532013000", f"{ERASED} and {ERASED}"),
    ],
)
def test_an_account_is_found_however_it_is_grouped(text: str, left: str) -> None:
    assert wanted("counterparty_account", "DE89 3704 0044 0532 0130 00").redacted(text) == left


def test_who_has_the_account_is_who_is_wanted_whatever_the_name() -> None:
    what = wanted("counterparty_account", "DE89 3704 0044 0532 0130 00")
    assert is_about({"counterparty_account": "DE89370400440532013000", "counterparty_name": None}, what)
    assert not is_about({"counterparty_account": None, "counterparty_name": "DE89370400440532013000"}, what)


def test_a_short_number_is_no_part_of_a_longer_one() -> None:
    assert Wanted("12345", is_account=True).redacted("to 12345, not 123456") == f"to {ERASED}, not 123456"


@pytest.mark.parametrize(
    ("what", "is_too_short"),
    [
        (Wanted("Bo"), True),
        (Wanted("--"), True),
        (Wanted("Bob"), False),
        (Wanted("山田"), False),
        (Wanted("Ж"), True),
        (Wanted("123", is_account=True), True),
        (Wanted("1 23-4", is_account=True), False),
    ],
)
def test_what_stands_anywhere_is_too_short(what: Wanted, is_too_short: bool) -> None:  # noqa: FBT001
    assert what.is_too_short == is_too_short


def test_of_whom_it_is_about_all_texts_go_and_of_others_the_mention() -> None:
    what = Wanted("Anna Müller")
    row: dict[str, Any] = dict.fromkeys(
        ("external_id", "structured_reference", "end_to_end_id", "bank_reference", "group_key", "mandate_id")
    )
    row |= dict.fromkeys(("instruction_id", "transaction_id", "uetr", "counterparty_account"))
    row |= {"external_id": "anna-mueller-7", "bank_reference": "B1", "mandate_id": "M1"}
    row |= {
        "remittance": "INV-1 for Anna Müller",
        "counterparty_name": "Bolt",
        "metadata": {"a": "ANNA MULLER", "b": "c"},
    }
    assert not is_about(row, what)
    assert redacted_row(row, 2, what, whole=False) == {
        "external_id": None,
        "remittance": f"INV-1 for {ERASED}",
        "metadata": {"a": ERASED, "b": "c"},
    }
    row["counterparty_name"] = "MUELLER ANNA"
    assert is_about(row, what)
    whole = dict.fromkeys(("external_id", "mandate_id", "remittance", "counterparty_name"))
    assert redacted_row(row, 2, what, whole=True) == {**whole, "metadata": {}}
    assert redacted_row({**row, **whole, "metadata": {}}, 2, what, whole=True) == {}


def test_a_payment_is_about_whom_it_is_made_for_as_well() -> None:
    line = {"counterparty_name": "Bolt", "ultimate_counterparty_name": "MUELLER ANNA", "counterparty_account": "DE1"}
    assert is_about(line, Wanted("Anna Müller"))
    assert not is_about(line, Wanted("Anna Maier"))
    assert is_about(line, Wanted("DE1", is_account=True))
    assert not is_about({**line, "ultimate_counterparty_name": "DE2"}, Wanted("DE2", is_account=True))


def test_a_duty_ends_with_the_calendar() -> None:
    assert kept_until(date(2026, 11, 22), 10) == date(2026, 12, 2)
    assert kept_until(date(9999, 12, 30), 36500) == date.max


def test_a_reference_that_goes_takes_its_key_along() -> None:
    texts = dict.fromkeys(("external_id", "end_to_end_id", "group_key", "counterparty_name", "counterparty_account"))
    row = {**texts, "description": None, "metadata": {}, "reference": "Ada Lovelace", "reference_key": 7}
    what = Wanted("Ada Lovelace")
    assert redacted_row(row, 1, what, whole=False) == {"reference": None, "reference_key": None}
    assert redacted_row({**row, "reference": "INV-2026-0042"}, 1, what, whole=False) == {}

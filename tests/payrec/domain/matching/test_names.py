from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.columns import Known, prepare
from payrec.domain.matching.explain import ExpectedFacts, IncomingFacts, explanation
from payrec.domain.matching.keys import name_key
from payrec.domain.matching.names import NAMES_SCHEMA, explained, normalised, resolved
from payrec.domain.matching.rules import AmountLevel, Confidence, MatchingRules, NameLevel
from support.matching_frames import Item, Line, expected_frame, incoming_frame, names_frame, run

AUTO_HIGH = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
OTHERS = ["Nordwind Logistik AG", "Albrador Trading Ltd", "Peter K. Langini", "Brückner Möbel GmbH", "Zoë Acker"]
PROPERTY = settings(max_examples=20)
LETTERS = "ABCDEFGHIJKLMNOPRSTUVWXYZ"


def meaning(ours: list[str], theirs: list[str]) -> dict[str, str]:
    """Resolve names, and tell by their texts which means which."""
    texts = {name_key(name): name for name in [*ours, *theirs]}
    frame = pl.DataFrame([*texts.items()], schema=dict(NAMES_SCHEMA), orient="row")
    keys = [pl.Series([name_key(name) for name in names], dtype=pl.Int64) for names in (ours, theirs)]
    return {texts[key]: texts[similar] for key, similar in resolved(*keys, normalised(frame)).iter_rows()}


@pytest.mark.parametrize(
    ("full", "written"),
    [
        ("Albrador Logistik GmbH", "Albrador Log. GmbH"),
        ("Vensolka Software S.L.", "Vensolka SW"),
        ("Vensolka Trading S.L.", "VENSOLKA TRDG SL"),
        ("Steinhardt & Kaufmeier Servicios Sp. z o.o.", "STEINHARDT & KAUFMEIER SERV"),
        ("Käthe M. Grünfeld", "K. M. Gruenfeld"),
        ("Riluminfin Bau AG", "Riluminfn Bau"),
        ("Jürgen Wald-Rosenson", "Wald-Rosensno, Jürgen"),
    ],
)
def test_a_shortened_cut_or_mistyped_name_is_found(full: str, written: str) -> None:
    assert meaning([*OTHERS, full], [written]) == {written: full}


@pytest.mark.parametrize(
    "written",
    [
        "Trading",
        "GmbH",
        "Albrador Logistik",
        "Peter M. Langini",
        "Nordwand Logistik AG",
        "Zoë",
        "Brückner",
        "Acker Bau",
    ],
)
def test_another_name_and_a_common_word_mean_nobody(written: str) -> None:
    assert meaning([*OTHERS, "Albrador Foods", "Nordwald Logistik", "Brückner Bau", "K. Trading"], [written]) == {}


def test_two_that_might_be_meant_are_none() -> None:
    assert meaning(["Anna P. Langer", "Astrid P. Langer"], ["A. P. Langer"]) == {}
    assert meaning(["Anna P. Langer", "Astrid Q. Langer"], ["A. P. Langer"]) == {"A. P. Langer": "Anna P. Langer"}


def test_a_name_that_an_item_has_is_not_resolved() -> None:
    assert meaning(["Albrador Bau", "Albrador Logistik"], ["ALBRADOR BAU GMBH"]) == {}


def test_what_many_names_share_is_common() -> None:
    towns = [f"{first}{second}stadt Quarz" for first in LETTERS for second in LETTERS]
    assert meaning([*towns, "Ulmer Quarz"], ["Quarz"]) == {}
    assert explained(["QUARZ"], ["QUARZ", "ULMER"], frozenset({"QUARZ"})) is None


WORDS = st.text(LETTERS, min_size=1, max_size=10)
NAMES = st.lists(WORDS, min_size=1, max_size=4).map(lambda words: " ".join(sorted(set(words))))


@PROPERTY
@given(st.lists(NAMES, max_size=8), st.lists(NAMES, max_size=8))
def test_names_are_resolved_by_what_they_say(ours: list[str], theirs: list[str]) -> None:
    keys = [pl.Series([name_key(name) for name in names], dtype=pl.Int64) for names in (ours, theirs)]
    texts = [(name_key(name), name) for name in [*ours, *theirs]]
    frame = pl.DataFrame(texts, schema=dict(NAMES_SCHEMA), orient="row")
    found = resolved(*keys, normalised(frame))
    assert found["key"].is_unique().all()
    assert set(found["key"]) <= set(keys[1]) - set(keys[0])
    assert set(found["similar_key"]) <= set(keys[0])
    assert resolved(keys[0].reverse(), keys[1].reverse(), normalised(frame.reverse())).equals(found)


@PROPERTY
@given(NAMES, NAMES)
def test_nothing_has_to_be_believed_of_equal_names_alone(one: str, other: str) -> None:
    assert explained(one.split(), one.split(), frozenset()) in {0, None}
    assert (explained(one.split(), other.split(), frozenset()) == 0) <= (one == other)


ITEM = Item("e", name="Albrador Logistik GmbH")
LINE = Line("i", name="Albrador Log.")


def test_a_similar_name_and_the_amount_are_proposed_and_never_accepted() -> None:
    outcome = run([ITEM], [LINE], AUTO_HIGH)
    pair = outcome.pairs["e", "i"]
    assert (pair.confidence, pair.auto) == (Confidence.MEDIUM, False)
    assert outcome.levels("e", "i")["name"] == NameLevel.SIMILAR


def test_a_similar_name_is_less_than_an_equal_one_and_more_than_another() -> None:
    by_name = {
        name: run([Item("e", name=name, iban="DE1")], [Line("i", name="Albrador Log.", iban="DE1")]).pairs["e", "i"]
        for name in ("Albrador Log. AG", "Albrador Logistik", "Nordwind Bau")
    }
    scores = [pair.score for pair in by_name.values()]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


def test_the_sentence_names_both() -> None:
    facts = {"amount_minor": 100, "currency": "EUR"}
    told = explanation(
        {"amount": AmountLevel.EQUAL, "name": NameLevel.SIMILAR},
        expected=ExpectedFacts(**facts, counterparty_name="Albrador Logistik"),  # type: ignore[arg-type]
        incoming=IncomingFacts(**facts, counterparty_name="Albrador Log."),  # type: ignore[arg-type]
    )
    assert told == "The amount is equal, the name Albrador Log. resembles Albrador Logistik; no other open item fits."


@PROPERTY
@given(st.lists(st.sampled_from([*OTHERS, "Nordwind Log. AG", "Peter Langini"]), max_size=6), st.data())
def test_which_names_are_known_beforehand_changes_nothing(called: list[str], data: st.DataObject) -> None:
    items = [Item(f"e{at}", name=name) for at, name in enumerate(OTHERS)]
    lines = [Line(f"i{at}", name=name) for at, name in enumerate(called)]
    frames, texts = (expected_frame(items), incoming_frame(lines)), names_frame([*items, *lines])
    known = normalised(texts).filter(
        pl.Series(data.draw(st.lists(st.booleans(), min_size=(n := texts.height), max_size=n)))
    )
    unknown = texts.join(known, on="key", how="anti")
    whole = prepare(*frames, texts)
    for told in (texts, unknown):
        found = prepare(*frames, told, known=Known(names=known))
        assert found.names.equals(whole.names)
        assert found.incoming.equals(whole.incoming)

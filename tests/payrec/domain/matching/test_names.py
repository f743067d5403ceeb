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
    return {texts[key]: texts[similar] for key, similar, _ in resolved(*keys, normalised(frame)).iter_rows()}


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


@pytest.mark.parametrize(("sharing", "meant"), [(8, {"Quarz": "Ulm Quarz"}), (9, {})])
def test_a_word_of_more_than_eight_names_is_common(sharing: int, meant: dict[str, str]) -> None:
    towns = [f"{letter}stadt Quarz" for letter in LETTERS[: sharing - 1]]
    assert meaning(["Ulm Quarz", *towns], ["Quarz"]) == meant


@pytest.mark.parametrize(
    ("one", "other", "believed"),
    [
        ("ALBRADOR FOODS", "ALBRADOR FDS", 2),
        ("ALBRADOR SERVICES", "ALBRADOR SRVCS", 2),
        ("ALBRADOR TRADING", "ALBRADOR RDNG", None),  # an abbreviation begins as its word
        ("ALBRADOR FOOD", "ALBRADOR FOOT", 3),
        ("ALBRADOR BRUNNER", "ALBRADOR BRXXNER", None),
        ("ALBRADOR BRUNNERT", "ALBRADOR BRXXNERT", 3),
        ("ALBRADOR BRUNNERT", "ALBRADOR BXXXNERT", None),
        ("ALBRADOR BRUNNERT QUARZ", "ALBRADXR BRUNNXRT QUARZ", None),  # both mistyped
        ("BRUNNERT", "BRUNNXRT", 3),
        ("BRUNNER", "BRUNNXR", None),  # nothing else speaks for it
        ("ABC BRUNNER", "ABC BRUNNXR", 3),
        ("SERVICES BRUNNER", "SRVCS BRUNNXR", 5),
        ("BRUNNERT SERV", "BRUNNXRT SERVICES", 5),
        ("ALBRADOR S SERV", "ALBRADOR SERVICES STAHL", 4),  # long words first: each has one of its own
        ("KAUFMANN KLAUS LANGINI", "K KAUFM LANGINI", 4),  # a longer abbreviation says more than an initial
        ("MAIER WALTER", "MEIER W", 5),
        ("ALBRADOR", "ALBRADOR ABC", 1),
        ("ALBRADOR", "ALBRADOR QUARZ", None),
        ("ALBRADOR", "ALBRADOR BAU", None),  # what a company does
        ("ABC ALBRADOR K", "ALBRADOR KURT", 3),
    ],
)
def test_what_has_to_be_believed_of_two_names(one: str, other: str, believed: int | None) -> None:
    assert explained(one.split(), other.split(), frozenset()) == believed
    assert explained(other.split(), one.split(), frozenset()) == believed


@pytest.mark.parametrize("common", ["SOLUTIONS", "SOLUTIOMS"])
def test_a_common_word_that_is_mistyped_tells_nobody(common: str) -> None:
    assert explained(["SOLUTIONS"], ["SOLUTIOMS"], frozenset()) == 3
    assert explained(["SOLUTIONS"], ["SOLUTIOMS"], frozenset({common})) is None


@pytest.mark.parametrize(
    ("full", "written"),
    [
        ("Acme Abc", "Acme"),  # one whole word alone
        ("Vensolkart", "Vxnsoxkart"),  # the end of a word
        ("ABC Langer", "ABC Lxnger"),
        ("Steinhardt Servicios", "Steimhardx Serv"),  # the beginnings of two
        ("Acme Abc Def", "Acme"),  # half of the letters
    ],
)
def test_a_little_in_common_is_enough_to_be_looked_at(full: str, written: str) -> None:
    assert meaning([*OTHERS, full], [written]) == {written: full}


def test_less_than_half_of_the_letters_is_too_little() -> None:
    assert meaning([*OTHERS, "Acme Abc Def X"], ["Acme"]) == {}


def test_what_is_rarest_is_looked_at_first() -> None:
    many = [f"{one}{other}berg" for one in "DFHKM" for other in "AEIOUYSR"]
    others = [f"{town} {trade}" for town in many for trade in ("Trading", "Services")]
    written = "Zorbo Trading Services"
    assert meaning([*others, "Zorbo Trd Svcs"], [written]) == {written: "Zorbo Trd Svcs"}


@pytest.mark.parametrize(
    ("written", "sharing", "found"),
    [
        ("Xange Trading", 64, True),
        ("Xange Trading", 65, False),
        ("Lenge Trading", 65, True),  # by its first letter beside the common word
    ],
)
def test_what_too_many_names_share_is_not_looked_at(written: str, sharing: int, *, found: bool) -> None:
    towns = [f"{one}{other}berg" for one in LETTERS[:8] for other in LETTERS][: sharing - 1]
    meant = {written: "Lange Trading"} if found else {}
    assert meaning(["Lange Trading", *(f"{town} Trading" for town in towns)], [written]) == meant


def test_of_many_candidates_the_most_alike_are_compared() -> None:
    others = [f"Vensolka {letter * 5}" for letter in "ABCDEGH"]
    assert meaning([*others, "Vensolka Foods"], ["Vensolka Fods"]) == {"Vensolka Fods": "Vensolka Foods"}


def test_one_name_that_means_nobody_does_not_stop_the_others() -> None:
    written = ["Nordlicht Logistik AG", "Vensolka SW"]
    assert meaning([*OTHERS, "Vensolka Software S.L."], written) == {"Vensolka SW": "Vensolka Software S.L."}


def test_names_are_in_alphabetical_order_each_key_once() -> None:
    texts = ["Nordwind", "Nordwind AG", "Acker", "Zorbo", "Langer"]
    long = [f"{'M' * 139} Z{letter}" for letter in LETTERS]
    frame = pl.DataFrame([(name_key(name), name) for name in [*texts, *long]], schema=dict(NAMES_SCHEMA), orient="row")
    found = normalised(frame)
    assert found["normal"].to_list() == ["ACKER", "LANGER", *["M" * 139] * len(long), "NORDWIND", "ZORBO"]
    assert found.equals(found.sort("normal", "key"))


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
@given(NAMES, st.data(), st.frozensets(WORDS, max_size=2))
def test_it_does_not_matter_which_name_comes_first(one: str, data: st.DataObject, common: frozenset[str]) -> None:
    beginnings = st.sampled_from(one.split()).flatmap(lambda word: st.integers(1, len(word)).map(lambda at: word[:at]))
    other = sorted(set(data.draw(st.lists(WORDS | beginnings, min_size=1, max_size=4))))
    assert explained(one.split(), other, common) == explained(other, one.split(), common)


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

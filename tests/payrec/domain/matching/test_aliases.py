"""Names that were learned: they mean the counterparty's, and prove nothing."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from payrec.domain.matching.keys import name_key
from payrec.domain.matching.names import NAMES_SCHEMA, normalised, resolved
from payrec.domain.matching.rules import Confidence, MatchingRules, NameLevel, Uniqueness
from payrec.domain.matching.weights import Calibration
from support.matching_frames import Item, Line, only, run, sure


def key(name: str) -> int:
    found = name_key(name)
    assert found is not None
    return found


RULES = MatchingRules(auto_accept=True, auto_accept_min_confidence="high", aliases={key("Factor Bank"): key("Alpha")})

SURE = (Confidence.EXACT, Uniqueness.UNIQUE, True)

CERTIFIED = replace(
    RULES,
    calibration=Calibration(
        version=1, corrections={}, curve=(), threshold_milli=-9_000, reviewed=3_000, wrong=0, bound_ppm=999_099
    ),
)


def test_an_alias_makes_a_foreign_name_mean_the_counterparty_s() -> None:
    items, lines = [Item("e", name="Alpha")], [Line("i", name="Factor Bank")]
    assert not run(items, lines).pairs
    taught = run(items, lines, RULES)
    assert taught.levels("e", "i")["name"] == NameLevel.ALIAS
    assert taught.pairs["e", "i"].confidence == Confidence.MEDIUM
    assert not taught.pairs["e", "i"].auto


def test_a_name_that_was_taught_is_no_reason_to_accept_whatever_score_is_certified() -> None:
    """A payment service that paid for one customer once accepted whatever it paid of the same amount for others."""
    items = [Item("e", name="Alpha"), Item("other", name="Beta")]
    found = run(items, [Line("i", name="Factor Bank")], CERTIFIED)
    assert found.levels("e", "i")["name"] == NameLevel.ALIAS
    assert (found.pairs["e", "i"].confidence, found.pairs["e", "i"].auto) == (Confidence.MEDIUM, False)
    # By an account, who pays is known.
    known = run([Item("e", name="Alpha", iban="DE1")], [Line("i", name="Factor Bank", iban="DE1")], CERTIFIED)
    assert known.pairs["e", "i"].auto


def test_a_name_that_is_like_the_item_s_is_so_though_it_was_taught() -> None:
    items, lines = [Item("e", name="Albrador Logistik")], [Line("i", name="Albrador Log.")]
    aliases = {key("Albrador Log."): key("Albrador Logistik")}
    found = run(items, lines, replace(CERTIFIED, aliases=aliases))
    assert found.levels("e", "i")["name"] == NameLevel.SIMILAR
    assert found.pairs["e", "i"].auto


def test_a_name_that_an_item_has_means_that_item() -> None:
    items = [Item("e", name="Alpha"), Item("own", name="Factor Bank")]
    assert list(run(items, [Line("i", name="Factor Bank")], RULES).pairs) == [("own", "i")]
    keys = pl.Series([key("Alpha"), key("Factor Bank")])
    texts = pl.DataFrame(schema=dict(NAMES_SCHEMA))
    assert resolved(keys, pl.Series([key("Factor Bank")]), normalised(texts), RULES.aliases).is_empty()
    assert resolved(keys.head(1), pl.Series([key("Factor Bank")]), normalised(texts), RULES.aliases).height == 1


def test_an_alias_of_nobody_who_is_here_changes_nothing() -> None:
    items, lines = [Item("e", name="Beta")], [Line("i", name="Factor Bank")]
    assert run(items, lines, RULES).pairs == run(items, lines).pairs


def test_what_has_an_alias_means_nobody_else_and_other_names_are_resolved_beside_it() -> None:
    ours, theirs = ["Alpha", "Factor Bank Ulm", "Albrador Logistik"], ["Factor Bank", "Albrador Log."]
    texts = pl.DataFrame([(key(name), name) for name in [*ours, *theirs]], schema=dict(NAMES_SCHEMA), orient="row")
    expected, incoming = (pl.Series([key(name) for name in names]) for names in (ours, theirs))
    found = resolved(expected, incoming, normalised(texts), RULES.aliases)
    assert set(found.iter_rows()) == {
        (key("Factor Bank"), key("Alpha"), NameLevel.ALIAS),
        (key("Albrador Log."), key("Albrador Logistik"), NameLevel.SIMILAR),
    }


def test_a_name_that_was_taught_does_not_say_whose_month_is_paid() -> None:
    """A bank that had paid one tenant's rent once was taken to pay it again with whoever's rent of that amount."""
    item = Item("e", name="Alpha", reference="Rent 03/2026")
    line = Line("i", name="Factor Bank", text="Rent 03/2026")
    for rules in (RULES, replace(RULES, aliases={})):
        [match] = run([item], [line], rules).matches
        assert (match.confidence, match.status, match.auto) == (Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    # Who is called alike, or has the account, pays his own.
    for known in (replace(line, name="Alpha"), replace(line, iban="DE1")):
        assert sure(only(run([replace(item, iban="DE1")], [known], RULES))) == SURE
    # A number of its own proves whoever pays.
    numbered = [replace(item, reference="INV-2026-0042")], [replace(line, text="INV-2026-0042")]
    assert sure(only(run(*numbered, RULES))) == SURE


def test_nor_whose_months_are_paid_together() -> None:
    items = [Item(f"e{month}", name="Alpha", reference=f"Rent 0{month}/2026") for month in (1, 2, 3)]
    text = " ".join(str(item.reference) for item in items)
    line = Line("i", amount=30_000, name="Factor Bank", text=text)
    found = only(run(items, [line], RULES))
    assert (len(found.legs), found.confidence, found.auto) == (3, Confidence.MEDIUM, False)
    assert sure(only(run(items, [replace(line, name="Alpha")], RULES))) == SURE


@pytest.mark.parametrize(
    ("names", "quotes"),
    [({"reference": "INV-2026-0042"}, {"text": "INV-2026-0042"}), ({"end_to_end_id": "E2E-2026-42"},) * 2],
    ids=["reference", "end-to-end id"],
)
@pytest.mark.parametrize("name", ["Factor Bank", "Albrador Log."], ids=["taught", "alike"])
def test_who_has_an_item_of_the_amount_may_have_mistaken_another_one_s_number_whatever_tells_who_he_is(
    names: dict[str, str], quotes: dict[str, str], name: str
) -> None:
    theirs, own = Item("theirs", name="Beta", **names), Item("own", name="Alpha")
    if name == "Albrador Log.":
        own = replace(own, name="Albrador Logistik")
    line = Line("i", name=name, **quotes)
    [match] = run([theirs, own], [line], RULES).matches
    told = (match.item, match.confidence, match.status, match.auto)
    assert told == ("theirs", Confidence.MEDIUM, Uniqueness.CONTESTED, False)
    # Of another amount, or of nobody's whom he is known to be, it is no reason to doubt.
    assert sure(only(run([theirs, replace(own, amount=9_000)], [line], RULES))) == SURE
    assert sure(only(run([theirs, replace(own, name="Gamma")], [line], RULES))) == SURE

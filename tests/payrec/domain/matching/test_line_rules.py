"""Rules of some lines: what each bound does to them, and that nothing changes for any other line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.line_rules import RULES_MAX, Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import Confidence, GroupLevel, MatchingRules, Reason
from support.matching_frames import Item, Line, Outcome, Proposal, level, only, run
from support.matching_pairs import RULES_DRAWN, sides_drawn

SETTINGS = Bounds(auto_accept=True, auto_accept_min_confidence="high")
INSIDE = "DE-MAIN"
"""The account of which the rules are."""
PROPERTY = settings(max_examples=25)


def ruled(*rules: LineRule, bounds: Bounds = SETTINGS) -> MatchingRules:
    """Return settings with rules."""
    return MatchingRules(**{name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}, line_rules=rules)


def of_account(**changes: Any) -> MatchingRules:
    """Return the settings, and a rule of one account that has other bounds."""
    rule = LineRule(name="main", scope=Scope(own_account_key=account_key(INSIDE)), bounds=replace(SETTINGS, **changes))
    return ruled(rule)


def both(items: list[Item], line: Line, rules: MatchingRules) -> tuple[Outcome, Outcome]:
    """Run with the line on the account of the rule, and on another one."""
    return run(items, [replace(line, account=INSIDE)], rules), run(items, [replace(line, account="DE-OTHER")], rules)


def names(outcome: Outcome) -> list[list[str]]:
    """Return the rules of each proposal that has any, in the order of the proposals."""
    return [json.loads(text) for text in outcome.proposals.ruled["rules"]]


QUOTED = Item("e", reference="INV-2026-17")


@pytest.mark.parametrize(
    ("changes", "item", "line", "reason"),
    [
        ({"date_window_days_after": 4}, QUOTED, Line("i", text="INV-2026-17", day=20_605), Reason.DATE_OUT_OF_WINDOW),
        ({"date_window_days_before": 4}, QUOTED, Line("i", text="INV-2026-17", day=20_595), Reason.DATE_OUT_OF_WINDOW),
        (
            {"required": Required.REFERENCE},
            Item("e", iban="DE1"),
            Line("i", iban="DE1"),
            Reason.MISSING_REFERENCE,
        ),
        ({"required": Required.END_TO_END_ID}, QUOTED, Line("i", text="INV-2026-17"), Reason.MISSING_REFERENCE),
        ({"required": Required.GROUP_KEY}, QUOTED, Line("i", text="INV-2026-17"), Reason.MISSING_REFERENCE),
        (
            {"required": Required.COUNTERPARTY_ACCOUNT},
            replace(QUOTED, iban="DE1"),
            Line("i", text="INV-2026-17", iban="DE2"),
            Reason.COUNTERPARTY_MISMATCH,
        ),
        (
            {"required": Required.COUNTERPARTY_NAME},
            replace(QUOTED, name="Alpha"),
            Line("i", text="INV-2026-17"),
            Reason.COUNTERPARTY_MISMATCH,
        ),
    ],
)
def test_what_a_rule_forbids_it_forbids_its_lines_alone(
    changes: dict[str, Any], item: Item, line: Line, reason: Reason
) -> None:
    inside, outside = both([item], line, of_account(**changes))
    assert not inside.matches
    assert inside.lines["i"][0] is reason
    assert outside.matches
    assert (names(inside), names(outside)) == ([], [])


@pytest.mark.parametrize("changes", [{"amount_tolerance_minor": 100}, {"amount_tolerance_basis_points": 100}])
def test_what_a_rule_tolerates_it_tolerates_of_its_lines_alone(changes: dict[str, Any]) -> None:
    line = Line("i", amount=9_900, text="INV-2026-17")
    inside, outside = both([QUOTED], line, of_account(**changes))
    assert (only(inside).auto, only(outside).auto) == (True, False)
    assert (names(inside), names(outside)) == ([["main"]], [])
    # By the counterparty alone, the pair is looked at only where the amounts may differ.
    by_account = [Item("e", iban="DE1")], replace(line, text=None, iban="DE1")
    inside, outside = both(*by_account, of_account(**changes))
    assert (only(inside).auto, only(inside).confidence) == (True, Confidence.HIGH)
    assert not only(outside).auto


def test_a_fee_is_tolerated_where_a_rule_says_so() -> None:
    line = Line("i", amount=8_500, text="INV-2026-17")
    inside, outside = both([QUOTED], line, of_account(fee_tolerance_minor=1_500))
    assert (only(inside).auto, only(outside).auto) == (True, False)
    assert inside.proposals.adjustments.height == 1


@pytest.mark.parametrize(
    ("changes", "auto"),
    [({"auto_accept": False}, False), ({"auto_accept_min_confidence": "exact"}, False), ({}, True)],
)
def test_who_may_be_accepted_at_once(changes: dict[str, Any], auto: bool) -> None:  # noqa: FBT001 - a parameter of the test
    inside, outside = both([Item("e", iban="DE1")], Line("i", iban="DE1"), of_account(**changes))
    assert (only(inside).auto, only(outside).auto) == (auto, True)
    assert only(inside).confidence is only(outside).confidence is Confidence.HIGH


def test_a_rule_may_allow_what_the_settings_do_not() -> None:
    allowed = LineRule(name="main", scope=Scope(own_account_key=account_key(INSIDE)), bounds=SETTINGS)
    inside, outside = both([QUOTED], Line("i", text="INV-2026-17"), ruled(allowed, bounds=Bounds()))
    assert (only(inside).auto, only(outside).auto) == (True, False)


def test_instalments_are_accepted_only_where_each_of_their_lines_may_be() -> None:
    item = Item("e", amount=10_000, reference="INV-2026-17")
    lines = [
        Line("a", amount=4_000, text="INV-2026-17", account=INSIDE),
        Line("b", amount=6_000, text="INV-2026-17", account="DE-OTHER"),
    ]
    outcome = run([item], lines, of_account(auto_accept=False))
    assert (level(only(outcome)), only(outcome).auto) == (GroupLevel.BY_INSTALMENTS, False)
    assert names(outcome) == [["main"]]
    assert only(run([item], lines, ruled())).auto


def test_a_group_id_is_what_a_rule_may_ask_for() -> None:
    items = [Item(f"e{at}", amount=1_000, group="PO-2026-7", due=20_600) for at in range(3)]
    line = Line("i", amount=3_000, text="Payout PO-2026-7", day=20_605)
    inside, outside = both(items, line, of_account(required=Required.GROUP_KEY))
    assert only(inside).auto
    assert only(outside).auto
    assert (names(inside), names(outside)) == ([["main"]], [])
    for wanted, reason in (
        (Required.END_TO_END_ID, Reason.MISSING_REFERENCE),
        (Required.COUNTERPARTY_ACCOUNT, Reason.COUNTERPARTY_MISMATCH),
    ):
        inside, outside = both(items, line, of_account(required=wanted))
        assert (inside.matches, inside.lines["i"][0]) == ([], reason)
        assert outside.matches
    inside, outside = both(items, line, of_account(date_window_days_after=4))
    assert (inside.matches, inside.lines["i"][0]) == ([], Reason.DATE_OUT_OF_WINDOW)
    assert outside.matches


def test_sets_that_nobody_named_are_not_looked_for_where_something_is_required() -> None:
    amounts = (102_347, 58_813, 215_909, 77_401, 131_117)
    items = [Item(f"e{at}", amount=amount, iban="DE1", due=20_590 + at) for at, amount in enumerate(amounts)]
    line = Line("i", amount=sum(amounts[1:4]), iban="DE1", day=20_600)
    inside, outside = both(items, line, of_account(required=Required.COUNTERPARTY_ACCOUNT))
    assert not inside.matches
    assert level(only(outside)) is GroupLevel.BY_RUN
    narrow, wide = both(items, replace(line, day=20_630), of_account(date_window_days_after=9))
    assert not narrow.matches
    assert level(only(wide)) is GroupLevel.BY_RUN


OUT = Line("out", direction=-1, account=INSIDE, iban="DE-SAVINGS")
IN = Line("in", direction=1, account="DE-SAVINGS", iban=INSIDE)


def test_either_end_of_a_transfer_may_forbid_that_it_is_accepted() -> None:
    assert only(run([], [OUT, IN], ruled())).auto
    for account in (INSIDE, "DE-SAVINGS"):
        scope = Scope(own_account_key=account_key(account))
        careful = LineRule(name="careful", scope=scope, bounds=replace(SETTINGS, auto_accept=False))
        outcome = run([], [OUT, IN], ruled(careful))
        assert not only(outcome).auto
        assert names(outcome) == [["careful"]]
    for wanted in (Required.REFERENCE, Required.COUNTERPARTY_NAME):
        outcome = run([], [OUT, IN], of_account(required=wanted))
        assert not outcome.matches
        assert {reason for reason, *_ in outcome.lines.values()} == {Reason.MISSING_REFERENCE}
        proved = [replace(line, end_to_end_id="TRF-20260310") for line in (OUT, IN)]
        assert only(run([], proved, of_account(required=wanted))).auto


def test_a_refund_without_a_reference_is_none_where_one_is_required() -> None:
    paid = Line("paid", direction=1, iban="DE1", account=INSIDE, text="INV-1")
    back = Line("back", direction=-1, iban="DE1", account=INSIDE, day=20_610)
    assert run([], [paid, back], ruled()).matches
    assert not run([], [paid, back], of_account(required=Required.REFERENCE)).matches


def test_the_first_rule_decides_and_no_other() -> None:
    large = Scope(minor_min=5_000, currency="EUR")
    first = LineRule(name="large", scope=large, bounds=replace(SETTINGS, auto_accept=False))
    second = LineRule(name="all", scope=Scope(), bounds=SETTINGS)
    items = [Item("big", amount=5_000, reference="INV-10001"), Item("small", amount=4_999, reference="INV-10002")]
    lines = [Line("x", amount=5_000, text="INV-10001"), Line("y", amount=4_999, text="INV-10002")]
    outcome = run(items, lines, ruled(first, second, bounds=Bounds()))
    assert {pair: match.auto for pair, match in outcome.pairs.items()} == {("big", "x"): False, ("small", "y"): True}
    assert sorted(names(outcome)) == [["all"], ["large"]]
    other = run(items, lines, ruled(second, first, bounds=Bounds()))
    assert {match.auto for match in other.matches} == {True}
    assert names(other) == [["all"], ["all"]]


SCOPES = st.sampled_from(
    [
        Scope(),
        Scope(own_account_key=account_key("DE1")),
        Scope(direction=-1),
        Scope(currency="USD"),
        Scope(account_key=account_key("DE2")),
        Scope(name_key=name_key("ALPHA GmbH")),
        Scope(currency="EUR", minor_min=101, minor_max=200),
    ]
)


@PROPERTY
@given(sides_drawn(), RULES_DRAWN, st.lists(SCOPES, min_size=1, max_size=4))
def test_rules_that_say_what_the_settings_say_change_nothing(
    drawn: tuple[list[Item], list[Line]], rules: MatchingRules, scopes: list[Scope]
) -> None:
    plain = replace(rules, line_rules=(), auto_accept=True, auto_accept_min_confidence="high")
    bounds = Bounds(**{name: getattr(plain, name) for name in Bounds.__dataclass_fields__})
    same = tuple(LineRule(name=f"r{at}", scope=scope, bounds=bounds) for at, scope in enumerate(scopes))
    assert run(*drawn, replace(plain, line_rules=same)).summary() == run(*drawn, plain).summary()


@PROPERTY
@given(sides_drawn(), RULES_DRAWN)
def test_a_rule_of_every_line_is_as_good_as_the_settings(
    drawn: tuple[list[Item], list[Line]], rules: MatchingRules
) -> None:
    plain = replace(rules, line_rules=(), auto_accept=True, auto_accept_min_confidence="high")
    bounds = Bounds(**{name: getattr(plain, name) for name in Bounds.__dataclass_fields__})
    outcome = run(*drawn, ruled(LineRule(name="all", bounds=bounds), bounds=Bounds(date_window_days_after=0)))
    assert outcome.summary() == run(*drawn, plain).summary()
    assert names(outcome) == [["all"]] * sum(bool(match.legs[0][1].startswith("i")) for match in outcome.matches)


BOUNDS_DRAWN = st.builds(
    Bounds,
    date_window_days_before=st.sampled_from([0, 30]),
    date_window_days_after=st.sampled_from([0, 5, 90]),
    amount_tolerance_minor=st.sampled_from([0, 1, 100]),
    fee_tolerance_minor=st.sampled_from([0, 20]),
    required=st.sampled_from(list(Required)),
    auto_accept=st.booleans(),
    auto_accept_min_confidence=st.sampled_from(["exact", "high"]),
)


@PROPERTY
@given(sides_drawn(), sides_drawn(), BOUNDS_DRAWN)
def test_a_rule_of_one_currency_leaves_the_others_as_they_were(
    drawn: tuple[list[Item], list[Line]], more: tuple[list[Item], list[Line]], bounds: Bounds
) -> None:
    items = [replace(item, id=f"o{item.id}", currency="CHF") for item in more[0]]
    lines = [replace(line, id=f"o{line.id}", currency="CHF") for line in more[1]]
    rule = LineRule(name="francs", scope=Scope(currency="CHF"), bounds=bounds)

    def told(rules: MatchingRules) -> list[Proposal]:
        found = run(drawn[0] + items, drawn[1] + lines, rules)
        return [match for match in found.matches if not match.legs[0][1].startswith("o")]

    assert told(ruled(rule)) == told(ruled())


def test_rules_beyond_what_has_a_number_are_refused() -> None:
    rule = LineRule(name="r", bounds=SETTINGS)
    ruled(*[rule] * RULES_MAX)
    with pytest.raises(ValueError, match="number"):
        ruled(*[rule] * (RULES_MAX + 1))


def test_a_hundred_rules_decide_by_priority() -> None:
    rules = [
        LineRule(name=f"r{at}", scope=Scope(currency="EUR", minor_min=at), bounds=replace(SETTINGS, auto_accept=False))
        for at in range(RULES_MAX, 0, -1)
    ]
    items = [Item(f"e{at}", amount=at, reference=f"INV-{at:05}") for at in range(1, RULES_MAX + 1)]
    lines = [Line(f"i{at}", amount=at, text=f"INV-{at:05}") for at in range(1, RULES_MAX + 1)]
    outcome = run(items, lines, ruled(*rules))
    found = outcome.proposals.ruled.join(outcome.proposals.legs, on="proposal")
    assert found.height == RULES_MAX
    assert found.select((pl.col("rules") == pl.format('["r{}"]', "amount_minor")).all()).item()

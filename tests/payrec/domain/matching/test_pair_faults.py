"""What forbids one pair by itself, which fault comes first, and what its line's rule says instead of the settings."""

from __future__ import annotations

import pytest

from payrec.domain.matching.line_rules import Bounds, LineRule, Required, Scope
from payrec.domain.matching.pair import judged
from payrec.domain.matching.rules import AmountLevel, MatchingRules, Reason
from support.single_pairs import BASE_ITEM, BASE_LINE, LONG, OTHER, SHORT, of_item, of_line

STRANGER = {"account_key": 7}
FAULTS = {
    "another account": ({"account_key": 5}, STRANGER, Reason.COUNTERPARTY_MISMATCH),
    "another name": ({"name_key": 5}, {"name_key": 7}, Reason.COUNTERPARTY_MISMATCH),
    "another account of the same name": ({"account_key": 5, "name_key": 3}, {**STRANGER, "name_key": 3}, None),
    "another name of the same account": ({"account_key": 7, "name_key": 5}, {**STRANGER, "name_key": 3}, None),
    "nobody says who it is": ({"account_key": 5}, {}, None),
    "quoted": ({"account_key": 5, "reference_key": LONG}, {**STRANGER, "reference_keys": (LONG,)}, None),
    "quoted in short": ({"account_key": 5, "reference_key": SHORT}, {**STRANGER, "reference_keys": (SHORT,)}, None),
    "quoted by its id": ({"account_key": 5, "end_to_end_key": LONG}, {**STRANGER, "end_to_end_key": LONG}, None),
    "by a short id": ({"account_key": 5, "end_to_end_key": SHORT}, {**STRANGER, "end_to_end_key": SHORT}, None),
    "another is quoted": (
        {"account_key": 5, "reference_key": LONG},
        {**STRANGER, "reference_keys": (OTHER,)},
        Reason.COUNTERPARTY_MISMATCH,
    ),
    "the day comes before whose it is": (
        {"account_key": 5, "due_day": 20_500},
        STRANGER,
        Reason.DATE_OUT_OF_WINDOW,
    ),
    "the amount comes before whose it is": (
        {"account_key": 5},
        {**STRANGER, "amount_minor": 9_000},
        Reason.AMOUNT_MISMATCH,
    ),
    "the currency comes before the day": ({"due_day": 20_500}, {"currency": "USD"}, Reason.CURRENCY_MISMATCH),
    "the day comes before the amount": ({"due_day": 20_500}, {"amount_minor": 9_000}, Reason.DATE_OUT_OF_WINDOW),
}


@pytest.mark.parametrize(("item", "line", "fault"), FAULTS.values(), ids=FAULTS)
def test_what_forbids_it(item: dict[str, object], line: dict[str, object], fault: Reason | None) -> None:
    assert judged(of_item(**item), of_line(**line), MatchingRules()).fault is fault


HAS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "nothing": ({}, {}),
    "short reference": ({"reference_key": SHORT}, {"reference_keys": (SHORT,)}),
    "digits": (
        {"reference_key": LONG, "reference_digits": 1_20260141},
        {"reference_keys": (OTHER,), "quoted_digits": (1_20260142,)},
    ),
    "short id": ({"end_to_end_key": SHORT}, {"end_to_end_key": SHORT}),
    "id": ({"end_to_end_key": LONG}, {"end_to_end_key": LONG}),
    "another id": ({"end_to_end_key": LONG}, {"end_to_end_key": OTHER}),
    "name": ({"name_key": 5}, {"name_key": 5}),
    "account": ({"account_key": 5}, {"account_key": 5}),
    "another name": ({"name_key": 5}, {"name_key": 7}),
}
REQUIRED = {
    "a reference": (Required.REFERENCE, {"short reference", "short id", "id"}, Reason.MISSING_REFERENCE),
    "an id": (Required.END_TO_END_ID, {"short id", "id"}, Reason.MISSING_REFERENCE),
    "a group": (Required.GROUP_KEY, set(), Reason.MISSING_REFERENCE),
    "a name": (Required.COUNTERPARTY_NAME, {"name"}, Reason.COUNTERPARTY_MISMATCH),
    "an account": (Required.COUNTERPARTY_ACCOUNT, {"account"}, Reason.COUNTERPARTY_MISMATCH),
}


@pytest.mark.parametrize(("required", "enough", "lacking"), REQUIRED.values(), ids=REQUIRED)
def test_what_is_required_has_to_be_there(required: Required, enough: set[str], lacking: Reason) -> None:
    found = {
        what: judged(of_item(**item), of_line(**line), MatchingRules(required=required)).fault
        for what, (item, line) in HAS.items()
    }
    assert found == {what: None if what in enough else lacking for what in HAS}


def test_of_two_that_are_required_the_reference_is_missed_first() -> None:
    rules = MatchingRules(required=Required.REFERENCE | Required.COUNTERPARTY_ACCOUNT)
    assert judged(BASE_ITEM, BASE_LINE, rules).fault is Reason.MISSING_REFERENCE
    item, line = HAS["id"]
    assert judged(of_item(**item), of_line(**line), rules).fault is Reason.COUNTERPARTY_MISMATCH


def test_a_rule_of_the_line_bounds_it_instead_of_the_settings() -> None:
    rule = LineRule(
        name="r",
        scope=Scope(currency="EUR", minor_min=10_000),
        bounds=Bounds(amount_tolerance_minor=5, date_window_days_after=1, required=Required.COUNTERPARTY_NAME),
    )
    rules = MatchingRules(line_rules=(rule,), amount_tolerance_minor=100)
    found = judged(of_item(amount_minor=10_005), BASE_LINE, rules)
    assert (found.rule, found.fault) == (rule, Reason.COUNTERPARTY_MISMATCH)
    assert found.levels["amount"] == AmountLevel.TOLERANCE
    assert judged(of_item(amount_minor=10_006), BASE_LINE, rules).fault is Reason.AMOUNT_MISMATCH
    assert judged(of_item(due_day=20_598), BASE_LINE, rules).days_outside == 1
    beside = judged(of_item(amount_minor=10_006), of_line(total_minor=9_999), rules)
    assert (beside.rule, beside.fault) == (None, None)

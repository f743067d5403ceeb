"""Rules of settings: what is wrong with them and where, and what a run makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.line_rules import RULES_MAX, Required, Scope
from payrec.errors import ValidationFailedError
from payrec.models.tenants import Settings
from payrec.services.matching_rules import classifiers_of, rules_of
from payrec.services.tenant_settings import check_settings


def rule(name: str = "r", priority: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "priority": priority, **fields}


def faults(*rules: dict[str, Any]) -> set[tuple[str, str]]:
    try:
        check_settings({"matching": {"rules": list(rules)}})
    except ValidationFailedError as error:
        return {(fault.pointer.removeprefix("/matching/rules"), fault.code) for fault in error.errors}
    return set()


EUR = {"currency": "EUR"}
A = {"account": "DE-A"}


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        ([rule(nmae="x")], {("/0/nmae", "extra_forbidden")}),
        ([rule(scope={"acount": "x"})], {("/0/scope/acount", "extra_forbidden")}),
        ([rule("Not a slug")], {("/0/name", "string_pattern_mismatch")}),
        ([rule(priority=0)], {("/0/priority", "greater_than_equal")}),
        ([{"name": "r"}], {("/0/priority", "missing")}),
        ([rule(dateWindowDaysAfter=-1)], {("/0/dateWindowDaysAfter", "greater_than_equal")}),
        ([rule(requiredFields=["amount"])], {("/0/requiredFields/0", "literal_error")}),
        ([rule(), rule("r", 2, scope=A)], {("/1/name", "duplicate_name"), ("/1/scope", "never_holds")}),
        ([rule("a", 1, scope=A), rule("b", 1, scope=EUR)], {("/1/priority", "duplicate_priority")}),
        ([rule(scope={"account": "--"})], {("/0/scope/account", "never_holds")}),
        ([rule(scope={"counterpartyName": "!"})], {("/0/scope/counterpartyName", "never_holds")}),
        ([rule(scope={"counterpartyAccount": "."})], {("/0/scope/counterpartyAccount", "never_holds")}),
        ([rule(scope={"amountMin": "1.00"})], {("/0/scope/amountMin", "currency_required")}),
        ([rule(scope={**EUR, "amountMax": "1.001"})], {("/0/scope/amountMax", "decimal_max_places")}),
        ([rule(scope={**EUR, "amountMin": "-1"})], {("/0/scope/amountMin", "decimal_malformed")}),
        ([rule(scope={**EUR, "amountMin": "2", "amountMax": "1"})], {("/0/scope/amountMin", "never_holds")}),
        ([rule(scope={"textContains": ["fee"]})], {("/0/scope/textContains", "only_for_classification")}),
        ([rule(scope={"bankTransactionCode": "X"})], {("/0/scope/bankTransactionCode", "only_for_classification")}),
        ([rule(classify={"category": "fee"})], {("/0/scope", "scope_required")}),
        ([rule(scope=A, classify={"category": "Fee"})], {("/0/classify/category", "string_pattern_mismatch")}),
        ([rule(scope=A, classify={"category": "fee"}, autoAccept=False)], {("/0/classify", "contradicts")}),
        ([rule(requiredFields=["reference"] * 2)], {("/0/requiredFields", "duplicate_value")}),
        ([rule(requiredFields=["groupKey", "endToEndId"])], {("/0/requiredFields", "never_holds")}),
        (
            [rule(autoAccept=False, autoAcceptMinConfidence="high")],
            {("/0/autoAcceptMinConfidence", "contradicts")},
        ),
        (
            [rule(scope={**EUR, "amountMax": "5.00"}, amountToleranceMinor=501, feeToleranceMinor=500)],
            {("/0/amountToleranceMinor", "contradicts")},
        ),
        # The earlier one in the list may be the later one by priority.
        ([rule("b", 2, scope=A), rule("a", 1)], {("/0/scope", "never_holds")}),
        ([rule("a", 1, scope=A), rule("b", 2, scope={**A, **EUR})], {("/1/scope", "never_holds")}),
        (
            [
                rule("a", 1, scope={**EUR, "amountMin": "1.00", "amountMax": "9.00"}),
                rule("b", 2, scope={**EUR, "amountMin": "1.00", "amountMax": "8.99"}),
            ],
            {("/1/scope", "never_holds")},
        ),
        # The same account and the same name, however they are written.
        ([rule("a", 1, scope={"account": "de a"}), rule("b", 2, scope=A)], {("/1/scope", "never_holds")}),
        (
            [
                rule("a", 1, scope={"counterpartyName": "Bolt GmbH"}),
                rule("b", 2, scope={"counterpartyName": "BOLT"}),
            ],
            {("/1/scope", "never_holds")},
        ),
        (
            [
                rule("a", 1, scope={"textContains": ["fee"]}, classify={"category": "fee"}),
                rule("b", 2, scope={"textContains": ["Bank FEE"]}, classify={"category": "tax"}),
            ],
            {("/1/scope", "never_holds")},
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(rules: list[dict[str, Any]], wrong: set[tuple[str, str]]) -> None:
    assert faults(*rules) == wrong


@pytest.mark.parametrize(
    "rules",
    [
        [rule()],
        [rule("a", 2), rule("b", 1, scope=A)],
        [rule("a", 1, scope={**A, **EUR}), rule("b", 2, scope=A)],
        [rule("a", 1, scope={**EUR, "amountMax": "9.00"}), rule("b", 2, scope={**EUR, "amountMin": "9.00"})],
        # What classifies is looked at after what matches, and takes nothing away from it.
        [rule("a", 1), rule("b", 2, scope=A, classify={"category": "fee", "postingCode": "4970"})],
        [
            rule("a", 1, scope={"textContains": ["bank fee"]}, classify={"category": "fee"}),
            rule("b", 2, scope={"textContains": ["fee"]}, classify={"category": "tax"}),
        ],
        [rule(requiredFields=[], autoAccept=True, autoAcceptMinConfidence="high")],
        [rule(scope={**EUR, "amountMax": "5.00"}, amountToleranceMinor=500)],
        [rule(f"r-{at}", at + 1, scope={"account": f"DE{at}"}) for at in range(RULES_MAX)],
    ],
)
def test_what_can_hold_is_taken(rules: list[dict[str, Any]]) -> None:
    assert faults(*rules) == set()


def test_more_rules_than_allowed_are_refused() -> None:
    assert faults(*[rule(f"r-{at}", at + 1, scope={"account": f"DE{at}"}) for at in range(RULES_MAX + 1)]) == {
        ("", "too_long")
    }


MANY = [
    rule("all", 90, dateWindowDaysAfter=7, requiredFields=["reference", "counterpartyAccount"]),
    rule("large", 10, scope={**EUR, "amountMin": "10000.00"}, autoAccept=False),
    rule("main", 20, scope={"account": "DE A", "direction": "debit"}, amountTolerancePercent=1.5, feeToleranceMinor=9),
    rule("bolt", 30, scope={"counterpartyName": "Bolt GmbH"}, autoAcceptMinConfidence="exact", requiredFields=[]),
    rule("fees", 5, scope={**A, "textContains": ["fee"]}, classify={"category": "fee", "postingCode": "4970"}),
]


@given(st.permutations(MANY))
def test_the_order_of_the_list_does_not_matter(rules: list[dict[str, Any]]) -> None:
    matching = {"rules": rules, "requireReference": True, "autoAccept": True, "autoAcceptMinConfidence": "high"}
    tenant = Settings.model_validate({"matching": matching})
    found = rules_of(tenant)
    assert [(r.name, r.scope) for r in found.line_rules] == [
        ("large", Scope(currency="EUR", minor_min=1_000_000)),
        ("main", Scope(own_account_key=account_key("DE-A"), direction=-1)),
        ("bolt", Scope(name_key=name_key("BOLT"))),
        ("all", Scope()),
    ]
    large, main, bolt, everything = (r.bounds for r in found.line_rules)
    assert (large.auto_accept, large.required, large.date_window_days_after) == (False, Required.REFERENCE, 60)
    assert (main.amount_tolerance_basis_points, main.fee_tolerance_minor, main.auto_accept) == (150, 9, True)
    assert (bolt.required, bolt.auto_accept_min_confidence) == (Required.NOTHING, "exact")
    assert everything.required == Required.REFERENCE | Required.COUNTERPARTY_ACCOUNT
    assert (everything.date_window_days_after, found.date_window_days_after) == (7, 60)
    [fees] = classifiers_of(tenant.matching)
    assert (fees.name, fees.texts, fees.category, fees.posting_code) == ("fees", ("fee",), "fee", "4970")


_SCOPES = st.sampled_from([{}, A, EUR, {**A, **EUR}, {"direction": "credit"}, {**A, "direction": "credit"}])


@given(st.lists(_SCOPES, max_size=4))
def test_a_rule_is_refused_exactly_if_another_one_before_it_covers_it(scopes: list[dict[str, Any]]) -> None:
    rules = [rule(f"r{at}", at + 1, scope=scope) for at, scope in enumerate(scopes)]
    shadowed = {at for at, scope in enumerate(scopes) if any(o.items() <= scope.items() for o in scopes[:at])}
    assert {int(place.split("/")[1]) for place, _ in faults(*rules)} == shadowed

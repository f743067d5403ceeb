"""What is wrong with a tenant's rules of matching, each fault with its place: what contradicts, what can never hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from payrec.domain.matching.keys import account_key, name_key
from payrec.domain.matching.line_rules import Scope
from payrec.domain.money import MoneyError, parse_decimal
from payrec.errors import FieldError
from payrec.models.matching_rules import MatchingRule, RuleScope

_DIRECTIONS: Final = {"credit": 1, "debit": -1}

_BOUNDS: Final = (
    "required_fields", "date_window_days_before", "date_window_days_after", "amount_tolerance_minor",
    "amount_tolerance_percent", "fee_tolerance_minor", "auto_accept", "auto_accept_min_confidence",
)  # fmt: skip
"""What a rule may say instead of the settings."""

_TEXTS: Final = ("text_contains", "bank_transaction_code")
"""What of a scope is looked at for a classification alone: keys do not tell it."""

_NOT_OF_A_GROUP: Final = frozenset({"endToEndId", "counterpartyName", "counterpartyAccount"})
"""What no group of a group id has: whoever pays it has collected it."""


def scope_of(given: RuleScope) -> Scope:
    """Return a scope as the engine compares it, without its texts; amounts that are none count as not given."""
    least, most = (_minor(given, amount) for amount in (given.amount_min, given.amount_max))
    return Scope(
        own_account_key=account_key(given.account),
        direction=_DIRECTIONS[given.direction] if given.direction is not None else None,
        currency=given.currency,
        account_key=account_key(given.counterparty_account),
        name_key=name_key(given.counterparty_name),
        minor_min=least,
        minor_max=most,
    )


def rule_faults(rules: Sequence[MatchingRule], *, pointer: str) -> list[FieldError]:
    """Return what is wrong; ``pointer`` is where the list stands."""
    faults: list[FieldError] = []
    scopes = [scope_of(rule.scope) for rule in rules]
    for number, rule in enumerate(rules):
        at = f"{pointer}/{number}"
        earlier = rules[:number]
        if any(other.name == rule.name for other in earlier):
            faults.append(_fault(f"{at}/name", "duplicate_name", "another rule has this name"))
        if any(other.priority == rule.priority for other in earlier):
            detail = "another rule has this priority, so nobody can say which one decides"
            faults.append(_fault(f"{at}/priority", "duplicate_priority", detail))
        own = [*_scope_faults(rule, scopes[number], at), *_bound_faults(rule, scopes[number], at)]
        faults += own
        above = [
            other.name
            for other, scope in zip(rules, scopes, strict=True)
            if other.priority < rule.priority
            and (other.classify is None) == (rule.classify is None)
            and _within(scopes[number], rule.scope, scope, other.scope)
        ]
        if above and not own:
            detail = f"the rule {above[0]} decides for all of these lines"
            faults.append(_fault(f"{at}/scope", "never_holds", detail))
    return faults


def _fault(pointer: str, code: str, detail: str) -> FieldError:
    return FieldError(pointer=pointer, code=code, detail=detail)


def _minor(scope: RuleScope, amount: str | None) -> int | None:
    if amount is None or scope.currency is None:
        return None
    try:
        return parse_decimal(amount, scope.currency)
    except MoneyError:
        return None


def _scope_faults(rule: MatchingRule, scope: Scope, at: str) -> Iterator[FieldError]:
    given = rule.scope
    keys = {
        "account": (given.account, scope.own_account_key),
        "counterpartyAccount": (given.counterparty_account, scope.account_key),
        "counterpartyName": (given.counterparty_name, scope.name_key),
    }
    for name, (text, key) in keys.items():
        if text is not None and key is None:
            yield _fault(f"{at}/scope/{name}", "never_holds", "has neither a letter nor a digit")
    for name, amount in (("amountMin", given.amount_min), ("amountMax", given.amount_max)):
        if amount is None:
            continue
        if given.currency is None:
            yield _fault(f"{at}/scope/{name}", "currency_required", "needs a currency")
            continue
        try:
            parse_decimal(amount, given.currency)
        except MoneyError as error:
            yield _fault(f"{at}/scope/{name}", error.code, error.detail)
    if None not in {scope.minor_min, scope.minor_max} and (scope.minor_min or 0) > (scope.minor_max or 0):
        yield _fault(f"{at}/scope/amountMin", "never_holds", "is more than amountMax")
    if rule.classify is None:
        for name, alias in zip(_TEXTS, ("textContains", "bankTransactionCode"), strict=True):
            if getattr(given, name) is not None:
                detail = "is looked at for a classification alone"
                yield _fault(f"{at}/scope/{alias}", "only_for_classification", detail)
    elif not given.model_fields_set:
        yield _fault(f"{at}/scope", "scope_required", "a classification of every line would hide them all")


def _bound_faults(rule: MatchingRule, scope: Scope, at: str) -> Iterator[FieldError]:
    if rule.classify is not None:
        if any(getattr(rule, name) is not None for name in _BOUNDS):
            yield _fault(f"{at}/classify", "contradicts", "a rule either bounds proposals or classifies")
        return
    wanted = rule.required_fields or []
    if len(set(wanted)) < len(wanted):
        yield _fault(f"{at}/requiredFields", "duplicate_value", "names a field twice")
    if "groupKey" in wanted and _NOT_OF_A_GROUP & set(wanted):
        detail = "a group of a group id has neither an end-to-end id nor a counterparty of its own"
        yield _fault(f"{at}/requiredFields", "never_holds", detail)
    if rule.auto_accept is False and rule.auto_accept_min_confidence is not None:
        detail = "says with which confidence, and autoAccept says never"
        yield _fault(f"{at}/autoAcceptMinConfidence", "contradicts", detail)
    for alias, minor in (
        ("amountToleranceMinor", rule.amount_tolerance_minor),
        ("feeToleranceMinor", rule.fee_tolerance_minor),
    ):
        if minor and scope.minor_max is not None and minor > scope.minor_max:
            yield _fault(f"{at}/{alias}", "contradicts", "is more than any amount in the scope")


def _within(inner: Scope, texts: RuleScope, outer: Scope, its_texts: RuleScope) -> bool:
    """Tell whether every line of one scope is in another."""
    names = ("own_account_key", "direction", "currency", "account_key", "name_key")
    if any(getattr(outer, name) not in {None, getattr(inner, name)} for name in names):
        return False
    if outer.minor_min is not None and (inner.minor_min or 0) < outer.minor_min:
        return False
    if outer.minor_max is not None and (inner.minor_max is None or inner.minor_max > outer.minor_max):
        return False
    if its_texts.bank_transaction_code not in {None, texts.bank_transaction_code}:
        return False
    if its_texts.text_contains is None:
        return True
    wanted = [text.casefold() for text in its_texts.text_contains]
    return texts.text_contains is not None and all(
        any(part in text.casefold() for part in wanted) for text in texts.text_contains
    )

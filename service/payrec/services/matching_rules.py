"""The engine's rules, from a tenant's settings. The API reads them as well, so nothing heavy is imported here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from payrec.domain.approvals import Limits
from payrec.domain.matching.line_rules import BASIS_POINTS, Bounds, LineRule, Required, Scope
from payrec.domain.matching.rules import MatchingRules
from payrec.domain.settings import merged
from payrec.models.matching_rules import MatchingRule
from payrec.models.tenants import MatchingSettings, Settings
from payrec.services.approvals import limits_of
from payrec.services.rule_checks import scope_of
from payrec.services.tenant_settings import effective_settings
from payrec.storage.database import Database
from payrec.storage.tenants import TenantStore

_REQUIRED: Final = {
    "reference": Required.REFERENCE,
    "endToEndId": Required.END_TO_END_ID,
    "counterpartyName": Required.COUNTERPARTY_NAME,
    "counterpartyAccount": Required.COUNTERPARTY_ACCOUNT,
    "groupKey": Required.GROUP_KEY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A rule that says what lines are that nobody expects."""

    name: str
    scope: Scope
    texts: tuple[str, ...]
    """Any of these, in what the line says; none asks for nothing."""
    bank_transaction_code: str | None
    category: str
    posting_code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """What a run goes by."""

    matching: MatchingRules
    classifiers: tuple[Classifier, ...]
    """By priority."""
    version: int
    """Of the tenant, whose settings these are."""
    limits: Limits
    """Beyond which nothing is accepted without a person."""


async def tenant_rules(database: Database, tenant_id: UUID, *, instead: dict[str, Any] | None = None) -> RunRules:
    """Return the rules for the settings that a tenant has now; what is given ``instead`` is merged into them."""
    async with database.control(readonly=True) as connection:
        stored, version = await TenantStore(connection).versioned_settings(tenant_id)
    tenant = effective_settings(merged(stored, instead or {}))
    return RunRules(
        matching=rules_of(tenant),
        classifiers=classifiers_of(tenant.matching),
        version=version,
        limits=limits_of(tenant),
    )


def rules_of(tenant: Settings) -> MatchingRules:
    """Return the engine's rules for a tenant's settings."""
    settings = tenant.matching
    bounds = Bounds(
        date_window_days_before=settings.date_window_days_before,
        date_window_days_after=settings.date_window_days_after,
        amount_tolerance_minor=settings.amount_tolerance_minor,
        amount_tolerance_basis_points=_basis_points(settings.amount_tolerance_percent),
        fee_tolerance_minor=settings.fee_tolerance_minor,
        required=Required.REFERENCE if settings.require_reference else Required.NOTHING,
        auto_accept=settings.auto_accept,
        auto_accept_min_confidence=settings.auto_accept_min_confidence,
    )
    return MatchingRules(
        **_values(bounds),
        line_rules=tuple(
            LineRule(name=rule.name, scope=scope_of(rule.scope), bounds=_bounds(rule, bounds))
            for rule in _by_priority(settings)
            if rule.classify is None
        ),
        fx_tolerance_basis_points=_basis_points(settings.fx_tolerance_percent),
        base_currency=tenant.base_currency,
        group_size_max=settings.group_size_max,
    )


def classifiers_of(settings: MatchingSettings) -> tuple[Classifier, ...]:
    """Return the rules that classify, by priority."""
    return tuple(
        Classifier(
            name=rule.name,
            scope=scope_of(rule.scope),
            texts=tuple(rule.scope.text_contains or ()),
            bank_transaction_code=rule.scope.bank_transaction_code,
            category=rule.classify.category,
            posting_code=rule.classify.posting_code,
        )
        for rule in _by_priority(settings)
        if rule.classify is not None
    )


_PLACES: Final = 6
"""Digits after the point that a number of hundredths of a percent is right to."""


def _by_priority(settings: MatchingSettings) -> list[MatchingRule]:
    return sorted(settings.rules, key=lambda rule: rule.priority)


def _basis_points(percent: float) -> int:
    """Return a percentage in hundredths of it. What is finer is left out: no more is tolerated than is set."""
    # A product such as 0.29 * 100 is a little less than the whole number that was meant.
    return math.floor(round(percent * BASIS_POINTS / 100, _PLACES))


def _values(bounds: Bounds) -> dict[str, Any]:
    return {name: getattr(bounds, name) for name in Bounds.__dataclass_fields__}


def _bounds(rule: MatchingRule, settings: Bounds) -> Bounds:
    """Return the bounds of a rule, with those of the settings where it says nothing."""
    said: dict[str, Any] = {
        "date_window_days_before": rule.date_window_days_before,
        "date_window_days_after": rule.date_window_days_after,
        "amount_tolerance_minor": rule.amount_tolerance_minor,
        "fee_tolerance_minor": rule.fee_tolerance_minor,
        "auto_accept": rule.auto_accept,
        "auto_accept_min_confidence": rule.auto_accept_min_confidence,
    }
    if rule.amount_tolerance_percent is not None:
        said["amount_tolerance_basis_points"] = _basis_points(rule.amount_tolerance_percent)
    if rule.required_fields is not None:
        wanted = Required.NOTHING
        for name in rule.required_fields:
            wanted |= _REQUIRED[name]
        said["required"] = wanted
    return Bounds(**_values(settings) | {name: value for name, value in said.items() if value is not None})

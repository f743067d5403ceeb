"""Which decisions need a second person by the tenant's settings, and what these keep from API keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final
from uuid import UUID

from payrec.domain.approvals import AdjustmentLimit, Books, Decided, Limits, Money, books_of, is_beyond
from payrec.domain.business_days import shifted
from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.domain.scope import TenantScope
from payrec.errors import ForbiddenError
from payrec.models.tenants import Settings
from payrec.services.work import Unit
from payrec.storage.approvals import ApprovalStore
from payrec.storage.database import Connection
from payrec.storage.fx_rates import FxRateStore

_RATES_THROUGH: Final = "EUR"
"""The currency through which the rate of two others is found."""

_BY_DEFAULT: Final = Settings()


def settings_of(scope: TenantScope) -> Settings:
    """Return the settings of approval that a request found, and the base currency; the rest are defaults."""
    return _BY_DEFAULT if scope.approval is None else Settings.model_validate_json(scope.approval)


def limits_of(settings: Settings) -> Limits:
    """Return the limits of settings."""
    approval = settings.approval
    return Limits(
        above_minor=approval.second_person_above_minor,
        currency=approval.currency or settings.base_currency,
        adjustments=tuple(
            AdjustmentLimit(
                role=limit.role, type=limit.adjustment_type, max_minor=limit.max_minor, currency=limit.currency
            )
            for limit in approval.limits
        ),
    )


def check_may_accept(caller: Caller) -> None:
    """Raise where the settings keep keys from accepting and the caller is one.

    Raises
    ------
    ForbiddenError
    """
    if caller.principal.kind == "api_key" and not settings_of(caller.tenant).approval.keys_may_accept:
        raise ForbiddenError("the setting approval.keysMayAccept does not let API keys accept")


def decided_of(row: Mapping[str, Any], settled: Iterable[Money], day: date | None) -> Decided:
    """Return what limits look at of a match; ``settled`` is what its legs settle."""
    adjustments = row["adjustments"] or ()
    of_side: dict[str, list[Money]] = {"expected": [], "incoming": []}
    for adjustment in adjustments:
        of_side[adjustment["side"]].append((adjustment["currency"], adjustment["minor"]))
    return Decided(
        day=day,
        ends=(
            ((row["currency"], row["amount_minor"]), *of_side["incoming"]),
            (*settled, *of_side["expected"]),
        ),
        adjustments=tuple((a["type"], (a["currency"], a["minor"])) for a in adjustments),
    )


async def books(
    connection: Connection,
    limits: Limits,
    currencies: Iterable[str],
    days: Iterable[date | None],
    *,
    maker: Principal | None = None,
) -> Books:
    """Return the rates that say what amounts of these currencies and days are in those of the limits.

    What the maker of a decision has set, himself or by a key that he made, or by his other keys where a key decides,
    counts for nothing: else whoever may set rates needs no second person.
    """
    wanted, known = {*currencies, *limits.currencies}, [day for day in days if day is not None]
    if len(wanted) == 1 or not known:
        return books_of(limits, [])
    first, last = shifted(min(known), -FX_DAYS_MAX), shifted(max(known), FX_DAYS_MAX)
    but_of = () if maker is None else maker.hands
    rates = await FxRateStore(connection).among({*wanted, _RATES_THROUGH}, first, last, but_of=but_of)
    return books_of(limits, rates)


async def needs_approval(unit: Unit, row: Mapping[str, Any], settled: Iterable[Money], day: date | None) -> bool:
    """Tell whether whoever decides about a match needs a second person for it."""
    maker = unit.caller.principal
    limits = limits_of(settings_of(unit.caller.tenant)).of(maker)
    if not limits.hold:
        return False
    decided = decided_of(row, settled, day)
    known = await books(unit.connection, limits, decided.currencies, [day], maker=maker)
    return is_beyond(decided, limits, known)


async def needing_approval(unit: Unit, days: Mapping[UUID, date | None]) -> frozenset[UUID]:
    """Return for which of these matches, each effective on its day, whoever decides needs a second person."""
    maker = unit.caller.principal
    limits = limits_of(settings_of(unit.caller.tenant)).of(maker)
    if not limits.hold:
        return frozenset()
    rows = await ApprovalStore(unit.connection).amounts(list(days))
    settled: dict[UUID, list[Money]] = {}
    for row in rows:
        settled.setdefault(row["id"], []).append((row["settled_currency"], row["settled_minor"]))
    decided = {row["id"]: decided_of(row, settled[row["id"]], days[row["id"]]) for row in rows}
    currencies = {currency for one in decided.values() for currency in one.currencies}
    known = await books(unit.connection, limits, currencies, days.values(), maker=maker)
    return frozenset(match_id for match_id, one in decided.items() if is_beyond(one, limits, known))

"""From which day a decision counts: that of what it is about, or the first that is open where that is locked.

Items alone have no such day: what is decided about them counts from the day on which somebody does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from uuid import UUID

from payrec.domain.scope import today
from payrec.errors import PayrecError
from payrec.services.work import Unit
from payrec.storage.period_locks import PeriodLockStore


async def effective_day(
    unit: Unit, last_on: date | None, accounts: Iterable[str | None], given: date | None = None
) -> date | None:
    """Return the day from which a decision counts that is about lines of these accounts.

    ``last_on`` is the day before which it cannot count, None of items alone, ``given`` what somebody asks for. Called
    when decisions are held. As ``OpenDays.day``.

    Raises
    ------
    PeriodLockedError, ValidationFailedError
    """
    names = set(accounts)
    return (await PeriodLockStore(unit.connection).open_days(names)).day(_from(unit, last_on, given), given, names)


@dataclass(slots=True, kw_only=True)
class DecidedDays:
    """From which day each of many matches counts, and why some cannot count from the day that is asked for."""

    days: dict[UUID, date | None] = field(default_factory=dict)
    refused: dict[UUID, PayrecError] = field(default_factory=dict)


async def effective_days(unit: Unit, last: Mapping[UUID, date | None], given: date | None = None) -> DecidedDays:
    """Return the same of many matches by the last booking day of each. Called when decisions are held."""
    store = PeriodLockStore(unit.connection)
    open_days = await store.open_days()
    accounts = await store.accounts_of(last) if open_days.through.keys() - {None} else {}
    found = DecidedDays()
    for match_id, last_on in last.items():
        try:
            found.days[match_id] = open_days.day(_from(unit, last_on, given), given, accounts.get(match_id, ()))
        except PayrecError as error:
            found.refused[match_id] = error
    return found


def _from(unit: Unit, last_on: date | None, given: date | None) -> date | None:
    """Return the day from which something counts at the earliest; any that is given will do for items alone."""
    return today(unit.caller.tenant, unit.now) if last_on is None and given is None else last_on


def accounts_of_legs(legs: Iterable[Mapping[str, Any]]) -> set[str | None]:
    """Return of which accounts the lines of a match's legs are."""
    found = {leg["incoming_own_account"] for leg in legs if not leg["incoming_contra"]}
    return found | {leg["expected_own_account"] for leg in legs if leg["expected_contra"]}

"""Where a request or a job works: one environment of one tenant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

_DAY_MIN: Final = date(1, 1, 2)
_DAY_MAX: Final = date(9999, 12, 30)
"""Between these, a day has its beginning and its end in every time zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantScope:
    """One tenant environment, as the control schema has it. Only the gate and the jobs make one."""

    tenant_id: UUID
    environment_id: UUID
    environment: str
    slug: str
    schema_name: str
    role_name: str
    timezone: str = "UTC"
    """IANA name; says which day it is for the tenant."""
    name: str = ""
    """The tenant's, as its people are shown it."""
    locale: str = "en"
    """BCP 47 tag; says how amounts and days are written for the tenant's people."""
    auto_run: bool = False
    """Whether what arrives is matched at once (``matching.autoRun``)."""
    reject_duplicates: bool = False
    """Whether content that is stored under another identity is refused (``ingestion.duplicatePolicy``)."""
    approval: str | None = None
    """Of the settings ``approval`` and ``baseCurrency`` as JSON; None where there is no ``approval``."""


def today(scope: TenantScope, now: datetime) -> date:
    """Return which day it is for the tenant; at the ends of the calendar, the last one there is."""
    try:
        return now.astimezone(ZoneInfo(scope.timezone)).date()
    except OverflowError:
        # Requests name instants before anybody has looked whether these can be shown.
        return date.min if now.year == date.min.year else date.max


def end_of(scope: TenantScope, day: date) -> datetime:
    """Return the last instant of a day for the tenant."""
    return datetime.combine(bounded(day), time.max, ZoneInfo(scope.timezone)).astimezone(UTC)


def bounded(day: date) -> date:
    """Return the day, or the nearest that has its beginning and its end in every time zone."""
    return min(max(day, _DAY_MIN), _DAY_MAX)


def schema_name(slug: str, environment: str) -> str:
    """Return the schema of an environment: ``acme-shop`` and ``test`` give ``acme_shop_test``.

    One to one, because a slug has no underscore and the last part is one of four known words.
    """
    return f"{slug.replace('-', '_')}_{environment}"


def role_name(tenant_id: UUID, environment: str) -> str:
    """Return the role that owns the environment's schema; roles are global to a PostgreSQL cluster, so by UUID."""
    return f"payrec_{tenant_id.hex}_{environment}"


def is_environment_role(role: str, environment: str) -> bool:
    """Tell whether a role's name is one that ``role_name`` gives to some tenant's environment of that name."""
    return re.fullmatch(rf"payrec_[0-9a-f]{{32}}_{environment}", role) is not None


def tombstone_name(environment_id: UUID) -> str:
    """Return what the schema of a dropped environment is called: no ``schema_name`` can be that, it ends otherwise."""
    return f"payrec_dropped_{environment_id.hex}"

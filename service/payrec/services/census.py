"""What the counts of all tenant environments come to: sums, and the greatest ages."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from payrec.constants.upkeep import OPEN_AGES, OPEN_CURRENCIES_MAX
from payrec.domain.matching.rules import Reason
from payrec.domain.money import exponent
from payrec.shared_gauges import Figures

_AGES: Final = tuple(OPEN_AGES)
_SIDES: Final = ("expected", "incoming")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted in one tenant environment."""

    rows: dict[str, Any]
    """How many transactions are open or overdue, accounts without statement, changes in no seal, ids of the oldest."""
    amounts: list[dict[str, Any]]
    """What is open in minor units, by side, direction, currency and number of the age."""
    recent: dict[str, int]
    """Transactions of the last days of each side, and how many of them are open."""
    reasons: list[dict[str, Any]]
    """Open transactions by side and number of the reason."""
    webhooks: dict[str, Any]
    """Endpoints by state, and their backlog."""
    sources: dict[str, int]
    """Pulled data sources by state."""
    jobs: list[dict[str, Any]]
    """Jobs that have not ended by kind and status, and the age of the oldest."""


class Census:
    """The sums and the greatest ages of all that was counted."""

    def __init__(self, now: datetime) -> None:
        self.environments = 0
        self._now = now
        self._sums: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._ages: dict[str, dict[tuple[str, ...], float]] = {
            "payrec_open_age_seconds": {("expected",): 0.0, ("incoming",): 0.0},
            "payrec_audit_unsealed_age_seconds": {(): 0.0},
            "payrec_jobs_open_age_seconds": {},
        }
        self._amounts: dict[tuple[str, ...], float] = defaultdict(float)
        self._currencies: Counter[str] = Counter()

    def add(self, counted: Counted) -> None:
        """Add one tenant environment."""
        self.environments += 1
        rows = counted.rows
        self._sums["payrec_overdue_transactions"][()] += rows["overdue"]
        self._sums["payrec_accounts_without_statement"][()] += rows["without_statement"]
        for side in _SIDES:
            self._sums["payrec_open_transactions"][(side,)] += rows[side]
            self._oldest("payrec_open_age_seconds", (side,), age_of(rows[f"oldest_{side}_id"], now=self._now))
            recent, still_open = counted.recent[side], counted.recent[f"{side}_open"]
            self._sums["payrec_recent_transactions"][side, "open"] += still_open
            self._sums["payrec_recent_transactions"][side, "closed"] += recent - still_open
        self._sums["payrec_audit_unsealed_changes"][()] += rows["unsealed"]
        self._oldest("payrec_audit_unsealed_age_seconds", (), age_of(rows["oldest_unsealed_id"], now=self._now))
        for row in counted.amounts:
            # A metric is for looking at, and a floating number whatever is put into it.
            units = row["minor"] / 10 ** exponent(row["currency"])
            self._amounts[row["side"], row["direction"], row["currency"], _AGES[row["age"]]] += units
            self._currencies[row["currency"]] += row["count"]
        for row in counted.reasons:
            self._sums["payrec_open_reasons"][row["side"], Reason(row["reason"]).code] += row["count"]
        for state in ("active", "failing", "disabled"):
            self._sums["payrec_webhooks"][(state,)] += counted.webhooks[state]
        self._sums["payrec_webhook_backlog_events"][()] += counted.webhooks["backlog"]
        for state in ("ok", "failing", "disabled"):
            self._sums["payrec_data_sources"][(state,)] += counted.sources.get(state, 0)
        for row in counted.jobs:
            labels = (row["kind"], row["status"])
            self._sums["payrec_jobs_open"][labels] += row["count"]
            self._oldest("payrec_jobs_open_age_seconds", labels, row["seconds"])

    def figures(self) -> Figures:
        """Return what was counted."""
        shown = {name for name, _ in self._currencies.most_common(OPEN_CURRENCIES_MAX)}
        return {
            "payrec_census_environments": {(): self.environments},
            "payrec_open_amount": {at: units for at, units in self._amounts.items() if at[2] in shown},
            **self._sums,
            **self._ages,
        }

    def _oldest(self, name: str, labels: tuple[str, ...], seconds: float) -> None:
        self._ages[name][labels] = max(self._ages[name].get(labels, 0.0), seconds)


def age_of(identifier: UUID | None, *, now: datetime) -> float:
    """Return the seconds since a UUIDv7 (RFC 9562, section 5.7) was made; 0 where there is none."""
    if identifier is None:
        return 0.0
    made = datetime.fromtimestamp((identifier.int >> 80) / 1000, tz=UTC)
    return max((now - made).total_seconds(), 0.0)

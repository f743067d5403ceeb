"""Gauges of what all processes share: each shows the same, so whoever reads them takes the greatest, not the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

Figures = Mapping[str, Mapping[tuple[str, ...], float]]
"""Values of gauges by the values of their labels."""

QUEUES: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "payrec_queue_wakeups": ("Tenant environments that wait for a worker to take a job of a kind.", ["kind"]),
    "payrec_queue_age_seconds": ("For how long the first of them has waited.", ["kind"]),
    "payrec_events_unsealed": ("Changes whose events have no place in a feed yet.", []),
    "payrec_events_unsealed_age_seconds": ("Age of the oldest of them.", []),
    "payrec_webhooks_due": ("Endpoints that are to be looked at and belong to no worker.", []),
    "payrec_webhooks_due_age_seconds": ("For how long the first of them has been due.", []),
}
"""What is asked at every scrape: name, help and labels."""

CENSUS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "payrec_census_environments": ("Tenant environments that were counted for what follows.", []),
    "payrec_open_transactions": ("Transactions with an open amount.", ["side"]),
    "payrec_open_amount": (
        "What is open, in units of the currency, by days since the due or booking day; of the commonest currencies.",
        ["side", "direction", "currency", "age"],
    ),
    "payrec_open_reasons": ("Transactions that the last run left open, by why.", ["side", "reason"]),
    "payrec_recent_transactions": ("Transactions of the last 30 days: open, or closed.", ["side", "state"]),
    "payrec_overdue_transactions": ("Open expected transactions that were due before today.", []),
    "payrec_accounts_without_statement": ("Accounts whose statement was told to be missing and has not come.", []),
    "payrec_open_age_seconds": ("Since when the oldest open transaction of a side is stored.", ["side"]),
    "payrec_audit_unsealed_changes": ("Changes whose audit records are in no seal yet.", []),
    "payrec_audit_unsealed_age_seconds": ("Age of the oldest of them.", []),
    "payrec_jobs_open": ("Jobs that have not ended.", ["kind", "status"]),
    "payrec_jobs_open_age_seconds": ("Age of the oldest of them.", ["kind", "status"]),
    "payrec_webhooks": ("Endpoints: active, failing (active, without success for a while), disabled.", ["state"]),
    "payrec_webhook_backlog_events": ("Events that endpoints are still to be told of, or again.", []),
    "payrec_data_sources": ("Pulled data sources: ok, failing, disabled.", ["state"]),
}
"""What is counted in all tenant environments every few minutes, by one worker, which then shows it for a while."""


class SharedGauges:
    """Gauges that are shown together, or not at all."""

    def __init__(self, gauges: Mapping[str, tuple[str, Sequence[str]]], *, registry: CollectorRegistry) -> None:
        self._gauges = {name: Gauge(name, told, labels, registry=registry) for name, (told, labels) in gauges.items()}
        self._are_plain = {name: not labels for name, (_, labels) in gauges.items()}
        self.clear()

    def show(self, figures: Figures) -> None:
        """Show these values instead of those before."""
        self.clear()
        for name, values in figures.items():
            for labels, value in values.items():
                gauge = self._gauges[name]
                (gauge.labels(*labels) if labels else gauge).set(value)

    def clear(self) -> None:
        """Show nothing: an old value would be taken for the present one."""
        for name, gauge in self._gauges.items():
            if self._are_plain[name]:
                # A gauge without labels cannot be taken away; NaN is what compares with nothing.
                gauge.set(float("nan"))
            else:
                gauge.clear()

"""Prometheus metrics of the operator, in the registry of its process. Tenants are labels: an installation has few."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from payrec import __version__
from payrec_operator.reasons import Reason

_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

TRIGGERS: Final = ("change", "timer", "secret", "wake", "delete")
"""What passes are caused by."""

RESULTS: Final = ("reconciled", "paused", "invalid", "stopped", "failed", "released", "skipped")
"""How they may end."""

ROTATIONS: Final = ("rotated", "deferred", "failed")
"""What may come of a rotation."""

READY_REASONS: Final = (
    Reason.INVALID_SPEC,
    Reason.SLUG_CONFLICT,
    Reason.SCHEMAS_NOT_READY,
    Reason.MIGRATIONS_PENDING,
    Reason.CREDENTIALS_NOT_READY,
    Reason.DATABASE_UNAVAILABLE,
    Reason.PENDING,
    Reason.PROGRESSING,
    Reason.DELETING,
    Reason.INTERNAL_ERROR,
)
"""Reasons of the condition Ready after passes that are counted as errors."""

API_SERVER_ERROR: Final = "ApiServerError"
"""Counted where Tenants cannot be watched or read, or a status not be written, of which no condition can tell."""

_TRUTHS: Final = {"True": 1.0, "False": 0.0}
"""Values of a condition; what is Unknown is -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFacts:
    """What one Tenant adds to the gauges: its place, and what its last status says."""

    namespace: str
    name: str
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Status by type."""
    environments: Sequence[str] = ()
    """State of each environment."""
    keys: Mapping[str, int] = field(default_factory=dict)
    """Number of keys by state; ``retiring_in_use``: retiring ones used long after their successor came."""
    is_behind: bool = False
    """Whether tables of an environment are not this release's."""
    next_rotation_at: float | None = None
    """Unix time of the earliest rotation that is planned."""
    finalizing: bool = False
    on_hold: bool = False
    """Whether somebody asked for what keeps it from being ready: it is paused or suspended."""


class OperatorMetrics(Collector):
    """All of them. What can be counted is counted as it happens; what is a state is read from the last statuses."""

    def __init__(self, registry: CollectorRegistry, *, resync_seconds: float) -> None:
        self._facts: dict[str, TenantFacts] = {}
        self.reconciles = Counter(
            "payrec_operator_reconcile_total",
            "Passes by what caused them and how they ended.",
            ["trigger", "result"],
            registry=registry,
        )
        self.errors = Counter(
            "payrec_operator_reconcile_errors_total",
            "Passes after which something was wrong, by the reason of Ready; and what could not be read or told.",
            ["reason"],
            registry=registry,
        )
        self.seconds = Histogram(
            "payrec_operator_reconcile_duration_seconds",
            "Duration of passes.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.active = Gauge("payrec_operator_active_reconciles", "Passes that run now.", registry=registry)
        self.last_success = Gauge(
            "payrec_operator_last_success_timestamp_seconds",
            "When a pass last ended with nothing that is tried again.",
            registry=registry,
        )
        self.rotations = Counter(
            "payrec_operator_api_key_rotations_total",
            "Rotations of keys by result (rotated, deferred, failed).",
            ["result"],
            registry=registry,
        )
        self.drift = Counter(
            "payrec_operator_drift_corrected_total",
            "What was not as it had been left and was made so again, by kind (tenant, schema, role, secret, ...).",
            ["kind"],
            registry=registry,
        )
        resync = Gauge(
            "payrec_operator_resync_interval_seconds", "Time between two looks at each Tenant.", registry=registry
        )
        resync.set(resync_seconds)
        info = Gauge("payrec_operator_build_info", "Version of this process.", ["version"], registry=registry)
        info.labels(version=__version__).set(1)
        self._begin_at_zero()
        registry.register(self)

    def _begin_at_zero(self) -> None:
        """Show what may be counted: what appears as 1 has not increased for Prometheus, and would raise no alert."""
        for trigger, result in product(TRIGGERS, RESULTS):
            self.reconciles.labels(trigger=trigger, result=result)
        for reason in (*READY_REASONS, API_SERVER_ERROR):
            self.errors.labels(reason=str(reason))
        for result in ROTATIONS:
            self.rotations.labels(result=result)

    def observe(self, uid: str, facts: TenantFacts) -> None:
        """Note what a Tenant is like now."""
        self._facts[uid] = facts

    def forget(self, uid: str) -> None:
        """Note that a Tenant is gone, and everything that was told of it."""
        self._facts.pop(uid, None)

    @property
    def tenants(self) -> int:
        """Count the Tenants that are known."""
        return len(self._facts)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges that are states of Tenants."""
        facts = list(self._facts.values())
        conditions = GaugeMetricFamily(
            "payrec_operator_tenant_condition",
            "Conditions of Tenants: 1 True, 0 False, -1 Unknown.",
            labels=["namespace", "name", "condition"],
        )
        rotations = GaugeMetricFamily(
            "payrec_operator_api_key_next_rotation_timestamp_seconds",
            "When the first of a Tenant's keys is to be rotated.",
            labels=["namespace", "name"],
        )
        for tenant in facts:
            for kind, status in tenant.conditions.items():
                conditions.add_metric([tenant.namespace, tenant.name, kind], _TRUTHS.get(status, -1.0))
            if tenant.next_rotation_at is not None:
                rotations.add_metric([tenant.namespace, tenant.name], tenant.next_rotation_at)
        on_hold = GaugeMetricFamily(
            "payrec_operator_tenant_on_hold",
            "Tenants that are paused or suspended because somebody asked for it.",
            labels=["namespace", "name"],
        )
        for tenant in facts:
            if tenant.on_hold:
                on_hold.add_metric([tenant.namespace, tenant.name], 1.0)
        yield conditions
        yield on_hold
        yield rotations
        yield _counted("environments", "Environments by state.", Count(s for t in facts for s in t.environments))
        yield _counted("api_keys", "API keys by state.", sum((Count(t.keys) for t in facts), Count()))
        yield _single("migrations_pending", "Tenants with tables that are behind.", [t.is_behind for t in facts])
        yield _single("finalizing", "Tenants that are being deleted.", [t.finalizing for t in facts])


def _counted(name: str, text: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"payrec_operator_{name}", text, labels=["state"])
    for state, count in sorted(counts.items()):
        family.add_metric([state], count)
    return family


def _single(name: str, text: str, values: Sequence[int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"payrec_operator_{name}", text)
    family.add_metric([], sum(values))
    return family

"""Prometheus metrics of one process. No tenant label: their number has no cap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from payrec import __version__
from payrec.models.jobs import JobKind
from payrec.shared_gauges import CENSUS, QUEUES, SharedGauges

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_JOB_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0)

_LAG_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)


JOB_ENDS = ("succeeded", "failed", "crashed", "cancelled", "interrupted", "lost")
"""How an attempt of a job may end."""


class WatchedJobs(Protocol):
    """What is asked about the jobs of a worker."""

    @property
    def budget_bytes(self) -> int:
        """The memory that there is."""

    def running(self, kind: str) -> int:
        """Count the jobs of a kind that run."""

    def held(self, kind: str) -> int:
        """Count who waits with a job of a kind."""

    def admitted_bytes(self) -> int:
        """Add up the memory of what runs."""


class Metrics:
    """The registry and everything in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "payrec_http_requests_total", "Requests.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "payrec_http_request_duration_seconds",
            "Duration of requests.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.records = Counter(
            "payrec_import_records_total", "Records of imported files by outcome.", ["outcome"], registry=self.registry
        )
        self.jobs = Counter("payrec_jobs_total", "Finished jobs.", ["kind", "status"], registry=self.registry)
        self.job_seconds = Histogram(
            "payrec_job_duration_seconds", "Duration of jobs.", ["kind"], buckets=_JOB_BUCKETS, registry=self.registry
        )
        self.proposals = Counter(
            "payrec_match_proposals_total", "Proposed matches by confidence.", ["confidence"], registry=self.registry
        )
        self.match_pairs = Counter("payrec_match_pairs_total", "Pairs that runs looked at.", registry=self.registry)
        self.auto_accepted = Counter(
            "payrec_match_auto_accepted_total", "Matches that runs accepted without anybody.", registry=self.registry
        )
        self.sync_objects = Counter(
            "payrec_sync_objects_total",
            "Remote objects that syncs of data sources have imported, failed to, or left for the next time.",
            ["outcome"],
            registry=self.registry,
        )
        self.rate_limited = Counter(
            "payrec_rate_limited_total", "Requests refused by a rate limit.", ["limit"], registry=self.registry
        )
        self.authentications = Counter(
            "payrec_authentications_total",
            "Requests with credentials or in want of them, by principal and outcome (ok, or a code).",
            ["principal", "outcome"],
            registry=self.registry,
        )
        self.pool = Gauge(
            "payrec_database_pool_connections",
            "Connections of the pool (open, idle, and max that it may have) and requests that wait for one (waiting).",
            ["state"],
            registry=self.registry,
        )
        self.worker_jobs = Gauge(
            "payrec_worker_jobs",
            "Jobs of this worker: running, and tenant environments for whose job it has no room (held).",
            ["kind", "state"],
            registry=self.registry,
        )
        self.worker_memory = Gauge(
            "payrec_worker_memory_bytes",
            "Memory of large jobs: what there is (budget) and what those that run may take (admitted).",
            ["state"],
            registry=self.registry,
        )
        self.events_sealed = Counter(
            "payrec_events_sealed_total", "Events that got their places in a feed.", registry=self.registry
        )
        self.deliveries = Counter(
            "payrec_webhook_deliveries_total",
            "Attempts to deliver an event, by outcome (succeeded, or why not).",
            ["outcome"],
            registry=self.registry,
        )
        self.delivery_lag = Histogram(
            "payrec_webhook_lag_seconds",
            "Time from an event to the first attempt to deliver it.",
            buckets=_LAG_BUCKETS,
            registry=self.registry,
        )
        self.audit_sealed = Counter(
            "payrec_audit_records_sealed_total", "Audit records that got into a seal.", registry=self.registry
        )
        self.retention_removed = Counter(
            "payrec_retention_removed_total",
            "Things that were deleted because their time was over, by kind.",
            ["kind"],
            registry=self.registry,
        )
        self.retention_failures = Counter(
            "payrec_retention_failures_total",
            "Tenant environments in which the retention could not look at a kind; the next run does.",
            ["kind"],
            registry=self.registry,
        )
        self.queues = SharedGauges(QUEUES, registry=self.registry)
        self.census = SharedGauges(CENSUS, registry=self.registry)
        info = Gauge("payrec_build_info", "Version of this process.", ["version"], registry=self.registry)
        info.labels(version=__version__).set(1)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request by the template of its route."""
        self.requests.labels(method=method, route=route, status=str(status)).inc()
        self.seconds.labels(method=method, route=route).observe(seconds)

    def watch_pool(self, connections: Callable[[], Mapping[str, int]]) -> None:
        """Ask for the connections by state at every scrape."""
        for state in ("open", "idle", "max", "waiting"):
            self.pool.labels(state=state).set_function(lambda state=state: connections()[state])  # type: ignore[misc]

    def watch_jobs(self, admission: WatchedJobs) -> None:
        """Ask what a worker does at every scrape, and count its jobs from 0 on.

        What appears as 1 has not increased for Prometheus, so that of a series that begins with it the first failure,
        perhaps the only one, would raise no alert.
        """
        for kind in get_args(JobKind):
            for status in JOB_ENDS:
                self.jobs.labels(kind=kind, status=status)
            for state, count in (("running", admission.running), ("held", admission.held)):
                self.worker_jobs.labels(kind=kind, state=state).set_function(partial(count, kind))
        self.worker_memory.labels(state="budget").set(admission.budget_bytes)
        self.worker_memory.labels(state="admitted").set_function(admission.admitted_bytes)

    def observe_job(self, kind: str, status: str, seconds: float) -> None:
        """Count one finished job."""
        self.jobs.labels(kind=kind, status=status).inc()
        self.job_seconds.labels(kind=kind).observe(seconds)

    def render(self) -> bytes:
        """Return the exposition in Prometheus' text format."""
        return generate_latest(self.registry)

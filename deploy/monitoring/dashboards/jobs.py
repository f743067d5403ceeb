"""Jobs and webhooks: what waits, what workers do, and how events reach those who are told."""

from __future__ import annotations

from model import Dashboard, Panel, Query, greatest, increase, metric, quantile, rate

DASHBOARD = Dashboard(
    uid="jobs",
    title="Jobs and webhooks",
    text="The queue, the workers, the event feed, deliveries to endpoints, and what workers do by the clock.",
    rows=[
        (
            "Queue",
            [
                Panel(
                    title="Waiting for a worker",
                    text="For how long the first tenant environment has waited. 300 s raise JobQueueStalled.",
                    unit="s",
                    thresholds=[(None, "green"), (300, "red")],
                    queries=[
                        Query(
                            expr=f"{greatest('payrec_queue_age_seconds', by='kind')}"
                            f" or 0 * {greatest('payrec_events_unsealed')}",
                            legend="{{kind}}",
                        )
                    ],
                ),
                Panel(
                    title="Jobs that have not ended",
                    text="Of all tenants, by kind and status. Counted every five minutes.",
                    queries=[Query(expr=greatest("payrec_jobs_open", by="kind, status"), legend="{{kind}} {{status}}")],
                ),
                Panel(
                    title="The oldest of them",
                    text="Since it was asked for.",
                    unit="s",
                    queries=[
                        Query(
                            expr=greatest("payrec_jobs_open_age_seconds", by="kind, status"),
                            legend="{{kind}} {{status}}",
                        )
                    ],
                ),
            ],
        ),
        (
            "Workers",
            [
                Panel(
                    title="Attempts by end",
                    text="An hour. `failed` is for good, `crashed` is tried again.",
                    stacked=True,
                    queries=[
                        Query(
                            expr=increase("payrec_jobs_total", "1h", by="kind, status") + " > 0",
                            legend="{{kind}} {{status}}",
                        )
                    ],
                ),
                Panel(
                    title="Duration (p95)",
                    text="Of an attempt, by kind.",
                    unit="s",
                    queries=[Query(expr=quantile(0.95, "payrec_job_duration_seconds", by="kind"), legend="{{kind}}")],
                ),
                Panel(
                    title="Running and held",
                    text="Jobs that run, and environments for whose job there is no room.",
                    queries=[
                        Query(
                            expr=f"sum by (kind, state) ({metric('payrec_worker_jobs')})", legend="{{kind}} {{state}}"
                        )
                    ],
                ),
                Panel(
                    title="Memory of large jobs",
                    text="Of each worker: what there is, and what those that run may take.",
                    unit="bytes",
                    queries=[
                        Query(expr=greatest("payrec_worker_memory_bytes", by="pod, state"), legend="{{pod}} {{state}}")
                    ],
                ),
            ],
        ),
        (
            "Events",
            [
                Panel(
                    title="Sealed",
                    text="Events that got their place in a feed, a second.",
                    unit="ops",
                    queries=[Query(expr=rate("payrec_events_sealed_total"), legend="events")],
                ),
                Panel(
                    title="Without a place",
                    text="Changes whose events wait for one.",
                    queries=[Query(expr=greatest("payrec_events_unsealed"), legend="changes")],
                ),
                Panel(
                    title="Age of what waits",
                    text="Events without a place, and endpoints that nobody has taken. 60 s raise WebhookBacklog.",
                    unit="s",
                    thresholds=[(None, "green"), (60, "red")],
                    queries=[
                        Query(expr=greatest("payrec_events_unsealed_age_seconds"), legend="events"),
                        Query(expr=greatest("payrec_webhooks_due_age_seconds"), legend="endpoints"),
                    ],
                ),
            ],
        ),
        (
            "Webhooks",
            [
                Panel(
                    title="Deliveries by outcome",
                    text="Attempts a second.",
                    unit="ops",
                    stacked=True,
                    queries=[Query(expr=rate("payrec_webhook_deliveries_total", by="outcome"), legend="{{outcome}}")],
                ),
                Panel(
                    title="From an event to its first attempt",
                    text="What a receiver waits for that answers well.",
                    unit="s",
                    queries=[
                        Query(expr=quantile(share, "payrec_webhook_lag_seconds"), legend=f"p{share * 100:g}")
                        for share in (0.5, 0.99)
                    ],
                ),
                Panel(
                    title="Endpoints by state",
                    text="Failing ones are disabled after five days without success.",
                    stacked=True,
                    queries=[Query(expr=greatest("payrec_webhooks", by="state"), legend="{{state}}")],
                ),
                Panel(
                    title="Still to be told",
                    text="Events that endpoints have yet to be told of, or again.",
                    queries=[Query(expr=greatest("payrec_webhook_backlog_events"), legend="events")],
                ),
                Panel(
                    title="Due endpoints",
                    text="Those that are to be looked at and belong to no worker.",
                    queries=[Query(expr=greatest("payrec_webhooks_due"), legend="endpoints")],
                ),
            ],
        ),
        (
            "By the clock",
            [
                Panel(
                    title="Audit records sealed",
                    text="A second.",
                    unit="ops",
                    queries=[Query(expr=rate("payrec_audit_records_sealed_total"), legend="records")],
                ),
                Panel(
                    title="Audit records without a seal",
                    text="For how long the oldest change has waited for one.",
                    unit="s",
                    queries=[Query(expr=greatest("payrec_audit_unsealed_age_seconds"), legend="oldest")],
                ),
                Panel(
                    title="Deleted by retention",
                    text="A day, by kind of what was over its time.",
                    queries=[
                        Query(expr=increase("payrec_retention_removed_total", "1d", by="kind"), legend="{{kind}}")
                    ],
                ),
            ],
        ),
    ],
)

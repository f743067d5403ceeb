"""The service: whether requests succeed and how fast, with the error budget, and what holds them up."""

from __future__ import annotations

from model import Dashboard, Panel, Query, greatest, increase, metric, quantile, rate

REQUESTS = "payrec_http_requests_total"
SECONDS = "payrec_http_request_duration_seconds"
FAILED = 'status=~"5.."'
REFUSED = 'status=~"[45].."'
POOL = "payrec_database_pool_connections"
ALLOWED = "0.001"
"""Of all requests, those that may fail: 99.9 % succeed. As in the alert ApiErrorBudgetBurn."""


def failing(window: str) -> str:
    """Return the share of requests that failed in a window; without any failure it is 0, and not nothing."""
    return f"({increase(REQUESTS, window, FAILED)} or vector(0)) / {increase(REQUESTS, window)}"


DASHBOARD = Dashboard(
    uid="service",
    title="Service",
    text="Requests, their errors against the budget of 99.9 %, their durations, and the database connections.",
    rows=[
        (
            "Error budget",
            [
                Panel(
                    title="Left of 30 days",
                    text="The share of the errors that 99.9 % allows in 30 days that has not happened yet.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    thresholds=[(None, "red"), (0.1, "orange"), (0.5, "green")],
                    queries=[Query(expr=f"clamp_min(1 - {failing('30d')} / {ALLOWED}, 0)")],
                ),
                Panel(
                    title="Succeeded in 24 h",
                    text="Requests that were not answered with 5xx.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    decimals=3,
                    thresholds=[(None, "red"), (0.999, "green")],
                    queries=[Query(expr=f"1 - {failing('1d')}")],
                ),
                Panel(
                    title="Burn rate",
                    text="How many times faster than allowed errors happen. 14.4 over an hour raises a page, 6 over "
                    "six hours a ticket.",
                    width=16,
                    thresholds=[(None, "green"), (6, "orange"), (14.4, "red")],
                    queries=[
                        Query(expr=f"{failing(window)} / {ALLOWED}", legend=window)
                        for window in ("5m", "30m", "1h", "6h")
                    ],
                ),
            ],
        ),
        (
            "Requests",
            [
                Panel(
                    title="By status",
                    text="Answers a second. 4xx are the client's.",
                    unit="reqps",
                    stacked=True,
                    queries=[Query(expr=rate(REQUESTS, by="status"), legend="{{status}}")],
                ),
                Panel(
                    title="Duration",
                    text="Of all routes together.",
                    unit="s",
                    queries=[
                        Query(expr=quantile(share, SECONDS), legend=f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)
                    ],
                ),
                Panel(
                    title="Slowest routes (p99)",
                    text="The ten whose 99th percentile is highest.",
                    unit="s",
                    queries=[
                        Query(
                            expr=f"topk(10, {quantile(0.99, SECONDS, by='method, route')})",
                            legend="{{method}} {{route}}",
                        )
                    ],
                ),
                Panel(
                    title="Busiest routes",
                    text="The ten that are asked most often.",
                    unit="reqps",
                    queries=[
                        Query(expr=f"topk(10, {rate(REQUESTS, by='method, route')})", legend="{{method}} {{route}}")
                    ],
                ),
                Panel(
                    title="Refused and failed, by route",
                    text="Answers of 4xx and 5xx; the ten with the most.",
                    unit="reqps",
                    queries=[
                        Query(
                            expr=f"topk(10, {rate(REQUESTS, REFUSED, by='route, status')})",
                            legend="{{status}} {{route}}",
                        )
                    ],
                ),
                Panel(
                    title="Requests a pod",
                    text="Whether the pods share the work.",
                    unit="reqps",
                    queries=[Query(expr=rate(REQUESTS, by="pod"), legend="{{pod}}")],
                ),
            ],
        ),
        (
            "Who asks",
            [
                Panel(
                    title="Authenticated",
                    text="Requests by kind of principal.",
                    unit="reqps",
                    queries=[
                        Query(
                            expr=rate("payrec_authentications_total", 'outcome="ok"', by="principal"),
                            legend="{{principal}}",
                        )
                    ],
                ),
                Panel(
                    title="Refused credentials",
                    text="By the code of the refusal. Many at once: a rotated key, or somebody who guesses.",
                    unit="reqps",
                    queries=[
                        Query(
                            expr=rate("payrec_authentications_total", 'outcome!="ok"', by="outcome"),
                            legend="{{outcome}}",
                        )
                    ],
                ),
                Panel(
                    title="Rate limited",
                    text="Requests that were over a limit, by limit.",
                    unit="reqps",
                    queries=[Query(expr=rate("payrec_rate_limited_total", by="limit"), legend="{{limit}}")],
                ),
            ],
        ),
        (
            "Database connections",
            [
                Panel(
                    title="Lent",
                    text="Connections that are in use, by pod.",
                    queries=[
                        Query(
                            expr=greatest(POOL, 'state="open"', by="pod")
                            + " - "
                            + greatest(POOL, 'state="idle"', by="pod"),
                            legend="{{pod}}",
                        )
                    ],
                ),
                Panel(
                    title="Waiting for one",
                    text="Requests and jobs that wait for a connection; after 10 s they give up.",
                    thresholds=[(None, "green"), (1, "red")],
                    queries=[
                        Query(
                            expr=greatest(POOL, 'state="waiting"', by="pod"),
                            legend="{{pod}}",
                        )
                    ],
                ),
                Panel(
                    title="Processes",
                    text="Every process that is scraped, and its version.",
                    kind="table",
                    hidden=["Value"],
                    queries=[Query(expr=f"count by (namespace, pod, version) ({metric('payrec_build_info')})")],
                ),
            ],
        ),
    ],
)

"""Matching and money: what is open and for how long, how much is matched, and what a person has to look at."""

from __future__ import annotations

from model import Dashboard, Panel, Query, Variable, greatest, increase, quantile, rate

CURRENCY = 'currency=~"$currency"'
RUNS = 'kind="match"'
DECISIONS = "/matches.*"
AGES = ("not-due", "0-7d", "8-30d", "31-90d", "over-90d")


def matched(side: str) -> str:
    """Return the share of the last days' transactions of a side that have nothing open."""
    of_side = f'side="{side}"'
    closed = greatest("payrec_recent_transactions", of_side, 'state="closed"', by="namespace")
    every = greatest("payrec_recent_transactions", of_side, by="namespace, state")
    return f"sum({closed}) / sum({every})"


def amount(side: str, direction: str) -> Panel:
    """Return the panel of what is open of a side and direction."""
    names = {
        ("expected", "credit"): "Receivables that are open",
        ("expected", "debit"): "Payables that are open",
        ("incoming", "credit"): "Payments received, unmatched",
        ("incoming", "debit"): "Payments made, unmatched",
    }
    return Panel(
        title=names[side, direction],
        text="In units of each currency, by days since the "
        + ("due day." if side == "expected" else "booking day.")
        + " Choose one currency: different ones are shown beside each other and never added up.",
        kind="bargauge",
        width=6,
        thresholds=[(None, "blue")],
        queries=[
            Query(
                expr=greatest(
                    "payrec_open_amount",
                    f'side="{side}"',
                    f'direction="{direction}"',
                    CURRENCY,
                    f'age="{age}"',
                    by="currency, age",
                ),
                legend="{{currency}} {{age}}",
            )
            for age in AGES
            if side == "expected" or age != "not-due"
        ],
    )


DASHBOARD = Dashboard(
    uid="matching",
    title="Matching and money",
    text="Open amounts by age, the share that is matched, what stays open and why, and the runs. Counted every five "
    "minutes over all tenants.",
    variables=[Variable(name="currency", label="Currency", query="label_values(payrec_open_amount, currency)")],
    rows=[
        (
            "Open amounts by age",
            [
                amount("expected", "credit"),
                amount("expected", "debit"),
                amount("incoming", "credit"),
                amount("incoming", "debit"),
                Panel(
                    title="Open amount",
                    text="All ages together, by currency and side.",
                    width=12,
                    queries=[
                        Query(
                            expr="sum by (currency, side, direction) ("
                            + greatest("payrec_open_amount", CURRENCY, by="currency, side, direction, age")
                            + ")",
                            legend="{{currency}} {{side}} {{direction}}",
                        )
                    ],
                ),
                Panel(
                    title="Overdue for more than 30 days",
                    text="Receivables and payables whose due day is 31 days back or more, by currency.",
                    width=12,
                    queries=[
                        Query(
                            expr="sum by (currency, direction) ("
                            + greatest(
                                "payrec_open_amount",
                                'side="expected"',
                                CURRENCY,
                                'age=~"31-90d|over-90d"',
                                by="currency, direction, age",
                            )
                            + ")",
                            legend="{{currency}} {{direction}}",
                        )
                    ],
                ),
            ],
        ),
        (
            "Match rate",
            [
                Panel(
                    title="Payments of 30 days matched",
                    text="Of the incoming transactions stored in the last 30 days, those with nothing open.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    thresholds=[(None, "orange"), (0.8, "green")],
                    queries=[Query(expr=matched("incoming"))],
                ),
                Panel(
                    title="Items of 30 days settled",
                    text="Of the expected transactions stored in the last 30 days, those with nothing open.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    thresholds=[(None, "orange"), (0.8, "green")],
                    queries=[Query(expr=matched("expected"))],
                ),
                Panel(
                    title="Accepted without a person",
                    text="Of the matches that runs proposed in 24 hours, those that were accepted at once.",
                    kind="stat",
                    unit="percentunit",
                    width=4,
                    queries=[
                        Query(
                            expr=f"{increase('payrec_match_auto_accepted_total', '1d')}"
                            f" / {increase('payrec_match_proposals_total', '1d')}"
                        )
                    ],
                ),
                Panel(
                    title="Proposals by confidence",
                    text="What runs proposed, an hour.",
                    width=12,
                    stacked=True,
                    queries=[
                        Query(
                            expr=increase("payrec_match_proposals_total", "1h", by="confidence"),
                            legend="{{confidence}}",
                        )
                    ],
                ),
                Panel(
                    title="Match rate",
                    text="The two shares above over time.",
                    width=12,
                    unit="percentunit",
                    highest=1.0,
                    queries=[
                        Query(expr=matched("incoming"), legend="payments matched"),
                        Query(expr=matched("expected"), legend="items settled"),
                    ],
                ),
                Panel(
                    title="Decisions by people",
                    text="Requests that accept, reject or undo matches, an hour, by route.",
                    width=12,
                    queries=[
                        Query(
                            expr=increase(
                                "payrec_http_requests_total",
                                "1h",
                                'method="POST"',
                                f'route=~"{DECISIONS}"',
                                'status=~"2.."',
                                by="route",
                            ),
                            legend="{{route}}",
                        )
                    ],
                ),
            ],
        ),
        (
            "Exceptions",
            [
                Panel(
                    title="Why payments stay open",
                    text="What the last run of each tenant said of its incoming transactions.",
                    stacked=True,
                    queries=[
                        Query(expr=greatest("payrec_open_reasons", 'side="incoming"', by="reason"), legend="{{reason}}")
                    ],
                ),
                Panel(
                    title="Why items stay open",
                    text="The same of expected transactions.",
                    stacked=True,
                    queries=[
                        Query(expr=greatest("payrec_open_reasons", 'side="expected"', by="reason"), legend="{{reason}}")
                    ],
                ),
                Panel(
                    title="Open and overdue",
                    text="Transactions with an open amount, and those of them that were due before today.",
                    queries=[
                        Query(expr=greatest("payrec_open_transactions", by="side"), legend="{{side}}"),
                        Query(expr=greatest("payrec_overdue_transactions"), legend="overdue"),
                    ],
                ),
                Panel(
                    title="The oldest that is open",
                    text="Since when it is stored. A line of more than two weeks raises UnmatchedAging.",
                    unit="s",
                    queries=[Query(expr=greatest("payrec_open_age_seconds", by="side"), legend="{{side}}")],
                ),
                Panel(
                    title="Runs that failed",
                    text="Attempts an hour that ended without a result, by how.",
                    queries=[
                        Query(
                            expr=increase("payrec_jobs_total", "1h", RUNS, 'status=~"failed|crashed"', by="status"),
                            legend="{{status}}",
                        )
                    ],
                ),
                Panel(
                    title="Environments that were counted",
                    text="Fewer than there are: the worker's log says which could not be.",
                    kind="stat",
                    queries=[Query(expr=greatest("payrec_census_environments"))],
                ),
            ],
        ),
        (
            "Runs",
            [
                Panel(
                    title="Runs by end",
                    text="Attempts an hour.",
                    stacked=True,
                    queries=[Query(expr=increase("payrec_jobs_total", "1h", RUNS, by="status"), legend="{{status}}")],
                ),
                Panel(
                    title="Duration of runs",
                    text="From the claim of the job to its end.",
                    unit="s",
                    queries=[
                        Query(expr=quantile(share, "payrec_job_duration_seconds", RUNS), legend=f"p{share * 100:g}")
                        for share in (0.5, 0.95)
                    ],
                ),
                Panel(
                    title="Pairs looked at",
                    text="A second, in all runs. Much more than lines and items: keys that many share.",
                    queries=[Query(expr=rate("payrec_match_pairs_total"), legend="pairs")],
                ),
            ],
        ),
    ],
)

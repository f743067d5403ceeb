"""Reports, computed anew: by hand over the lists, and by the queries that ``service/reports.md`` documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from support.service import Tenant

DOCUMENT = Path(__file__).resolve().parents[2] / "service" / "reports.md"
SUMMARY, AGEING, BALANCES = "/reports/summary", "/reports/ageing", "/reports/open-balances"
EXCEPTIONS = "/reports/exceptions"
REPORTS = (SUMMARY, AGEING, BALANCES, EXCEPTIONS)
EXPECTED, INCOMING, MATCHES = "/expected-transactions", "/incoming-transactions", "/matches"
STATUSES = {
    EXPECTED: ("open", "partially_matched", "matched", "void"),
    INCOMING: (
        "pending", "unmatched", "partially_matched", "matched", "ignored", "classified", "reversed", "linked",
    ),
    MATCHES: ("proposed", "pending_approval", "accepted", "rejected", "superseded", "reversed"),
}  # fmt: skip
BUCKETS = ("notDue", "days1To30", "days31To60", "days61To90", "over90Days", "noDueDate")

Row = dict[str, Any]


def documented(day: date) -> dict[str, str]:
    """Return the documented queries by name, for a day."""
    found = re.findall(r"```sql\n-- ([^\n]+)\n(.*?);\n```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return {name: text.replace(":'today'", f"date '{day}'").replace("date date", "date") for name, text in found}


async def report(tenant: Tenant, path: str, **parameters: Any) -> Row:
    """Return a report."""
    answer = await tenant.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def everything(tenant: Tenant, path: str, **parameters: Any) -> list[Row]:
    """Return all rows of a list, or all groups of a report."""
    found: list[Row] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await tenant.get(path, params={"limit": 200, **parameters, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["data"]
        if not page["hasMore"]:
            return found
        cursor = {"cursor": page["nextCursor"]}


def rate(part: int, whole: int) -> float | None:
    """Return a share with four digits, half rounded up."""
    return int(part * 10_000 / whole + 0.5) / 10_000 if whole else None


def line_of(row: Row) -> tuple[str, str]:
    """Return currency and direction."""
    return row["currency"], row["direction"]


def returned(lines: Sequence[Row]) -> Counter[str]:
    """Return what was taken back, of payments and of the returns themselves."""
    found: Counter[str] = Counter()
    for line in lines:
        for part in line["reversalOf"]:
            found[line["id"]] += part["amountMinor"]
            found[part["incomingTransactionId"]] += part["amountMinor"]
    return found


def side_summary(path: str, rows: Sequence[Row], taken: Counter[str]) -> Row:
    """Return what the summary says of one side of a line, amounts as minor units."""
    statuses = {}
    for status in STATUSES[path]:
        of = [row for row in rows if row["status"] == status]
        less = 0 if status in {"reversed", "linked"} else sum(taken[row["id"]] for row in of)
        settled = sum(row.get("settledBeforeMinor", 0) for row in of)
        statuses[status] = (len(of), sum(row["amountMinor"] for row in of) - less - settled)
    asking = [row for row in rows if row["status"] in {"open", "unmatched", "partially_matched"}]
    amounts = {
        "matched": sum(row["matchedAmountMinor"] for row in rows),
        "open": sum(row["openAmountMinor"] for row in asking),
    }
    if path == EXPECTED:
        amounts["settledBefore"] = sum(row["settledBeforeMinor"] for row in rows)
        amounts["void"] = statuses["void"][1]
    else:
        amounts["returned"] = sum(taken[row["id"]] for row in rows)
        amounts |= {status: statuses[status][1] for status in ("pending", "ignored", "classified")}
    total = (len(rows), sum(row["amountMinor"] for row in rows))
    assert sum(amounts.values()) == total[1], (amounts, total)
    counted = sum(row["status"] == "matched" for row in rows)
    return {
        "total": total,
        "statuses": statuses,
        "amounts": amounts,
        "matchRate": {
            "byCount": rate(counted, counted + len(asking)),
            "byAmount": rate(amounts["matched"], amounts["matched"] + amounts["open"]),
        },
    }


def plain(figure: Row) -> tuple[int, int]:
    """Return a figure without its decimal string."""
    return figure["count"], figure["amountMinor"]


def shortened(side: Row) -> Row:
    """Return one side of a line of the summary as ``side_summary`` has it."""
    return {
        "total": plain(side["total"]),
        "statuses": {status: plain(found) for status, found in side["statuses"].items()},
        "amounts": {name: amount["amountMinor"] for name, amount in side["amounts"].items()},
        "matchRate": side["matchRate"],
    }


def bucket_of(row: Row, day: date) -> str:
    """Return the bucket of an open item."""
    due = row["dueDate"] or row["expectedTo"]
    if due is None:
        return "noDueDate"
    late = (day - date.fromisoformat(due)).days
    return next(name for name, end in zip(BUCKETS, (0, 30, 60, 90, 10**6), strict=False) if late <= end)


def is_open(row: Row) -> bool:
    """Tell whether an item or line asks for a match, and something of it is open."""
    return row["status"] in {"open", "unmatched", "partially_matched"}


def ageing(rows: Iterable[Row], day: date, member: str | None = None) -> dict[Any, dict[str, tuple[int, int]]]:
    """Return the ageing of a list's rows by name, currency and direction."""
    found: dict[Any, Any] = defaultdict(lambda: dict.fromkeys(BUCKETS, (0, 0)))
    for row in filter(is_open, rows):
        group = found[row[member] if member else None, *line_of(row)]
        bucket = bucket_of(row, day)
        count, minor = group[bucket]
        group[bucket] = (count + 1, minor + row["openAmountMinor"])
    return dict(found)


def in_order(names: Iterable[tuple[str | None, str, str]]) -> list[tuple[str | None, str, str]]:
    """Return groups in the order of reports: those without a name last."""
    return sorted(names, key=lambda group: (group[0] is None, (group[0] or "").encode(), *group[1:]))


def waited(line: Row) -> int:
    """Return in how many seconds a matched line was matched, as coarsely as it is told."""
    span = datetime.fromisoformat(line["updatedAt"]) - datetime.fromisoformat(line["createdAt"])
    seconds = int(span.total_seconds())
    step = 1 if seconds < 3600 else 60 if seconds < 86400 else 3600
    return seconds // step * step

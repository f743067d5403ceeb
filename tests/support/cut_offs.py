"""What lists would say at a cut-off: rows of lists with what counts at the end of a day."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.report_figures import EXPECTED, INCOMING, MATCHES

Row = dict[str, Any]
COUNTING = ("accepted", "pending_approval")


def at_cut_off(rows: dict[str, list[Row]], day: str) -> dict[str, list[Row]]:
    """Return the rows of the three lists that are there at the end of a day, as they are then."""
    booked = {row["id"]: row["bookingDate"] for row in rows[INCOMING]}
    counting = [m for m in rows[MATCHES] if m["status"] in COUNTING and (m["effectiveOn"] or "") <= day]
    taken: Counter[str] = Counter()
    pairs = set()
    for match in counting:
        for leg in match["legs"]:
            for name, member in (
                ("expectedTransactionId", "settledMinor"),
                ("contraExpectedTransactionId", "amountMinor"),
                ("incomingTransactionId", "amountMinor"),
                ("contraIncomingTransactionId", "settledMinor"),
            ):
                if leg.get(name):
                    taken[leg[name]] += leg[member]
            pairs.add((leg.get("expectedTransactionId"), leg.get("incomingTransactionId")))
        for adjustment in match["adjustments"]:
            of = adjustment.get("expectedTransactionId") or adjustment["incomingTransactionId"]
            taken[of] += adjustment["amountMinor"]
    returned: Counter[str] = Counter()
    for back in rows[INCOMING]:
        for link in back["reversalOf"]:
            payment, item = link["incomingTransactionId"], link["expectedTransactionId"]
            if max(booked[payment], back["bookingDate"]) > day:
                continue
            returned[payment] += link["amountMinor"]
            returned[back["id"]] += link["amountMinor"]
            if (item, payment) in pairs:
                taken[payment] -= link["amountMinor"]
                taken[item] -= link["amountMinor"]
    return {
        EXPECTED: [_item(row, taken) for row in rows[EXPECTED] if row["createdAt"][:10] <= day],
        INCOMING: [_line(row, taken, returned, booked, day) for row in rows[INCOMING] if row["bookingDate"] <= day],
        MATCHES: [m for m in rows[MATCHES] if m["effectiveOn"] is not None and m["effectiveOn"] <= day],
    }


def _item(row: Row, taken: Counter[str]) -> Row:
    if row["status"] == "void":
        return row
    matched = taken[row["id"]]
    left = row["amountMinor"] - row["settledBeforeMinor"] - matched
    status = "matched" if left == 0 else "partially_matched" if matched else "open"
    return row | {"status": status, "matchedAmountMinor": matched, "openAmountMinor": left}


def _line(row: Row, taken: Counter[str], returned: Counter[str], booked: dict[str, str], day: str) -> Row:
    links = [
        link for link in row["reversalOf"] if max(booked[link["incomingTransactionId"]], row["bookingDate"]) <= day
    ]
    row = row | {"reversalOf": links}
    whole, matched = row["amountMinor"] - returned[row["id"]], taken[row["id"]]
    if row["status"] in {"pending", "ignored", "classified"} or whole == 0:
        return row
    status = "matched" if matched == whole else "partially_matched" if matched else "unmatched"
    return row | {"status": status, "matchedAmountMinor": matched, "openAmountMinor": whole - matched}

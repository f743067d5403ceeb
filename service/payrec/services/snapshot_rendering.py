"""A snapshot as it is read: its import, what was compared, and the first differences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from payrec.constants.snapshots import DIFFERENCES_SHOWN_MAX
from payrec.domain.money import format_minor
from payrec.errors import AmountOutOfRangeError, FieldError, ValidationFailedError
from payrec.models.snapshots import ControlTotals, SnapshotOptions, SnapshotPublic
from payrec.services.import_rendering import COLLECTION
from payrec.services.validation import amount_of, validated
from payrec.storage.database import Connection
from payrec.storage.snapshots import SnapshotStore

KINDS: Final = ("missing_here", "missing_there", "amount_differs")
"""In which an item differs, in the order in which differences are told."""


def control_totals(options: SnapshotOptions) -> dict[str, tuple[int, int]]:
    """Return how many items of each currency there have to be, and the sum of their open amounts.

    Raises
    ------
    ValidationFailedError, AmountOutOfRangeError
    """
    try:
        given = json.loads(options.control_totals)
    except (ValueError, RecursionError):
        detail = "must be JSON"
        field = FieldError(pointer="/controlTotals", code="control_totals_malformed", detail=detail)
        raise ValidationFailedError.of(field) from None
    found: dict[str, tuple[int, int]] = {}
    for place, total in enumerate(validated(ControlTotals, {"controlTotals": given}).control_totals):
        pointer = f"/controlTotals/{place}"
        if total.currency in found:
            detail = "each currency has one control total"
            raise ValidationFailedError.of(FieldError(pointer=pointer, code="currency_once", detail=detail))
        try:
            found[total.currency] = total.count, amount_of(total, least=0)
        except (ValidationFailedError, AmountOutOfRangeError) as error:
            [field] = error.errors
            wrong = FieldError(pointer=pointer + field.pointer, code=field.code, detail=field.detail)
            raise type(error)(error.detail, errors=[wrong]) from None
    return found


def difference_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored difference as it is told."""
    sides = {
        side: None
        if row[f"{side}_minor"] is None
        else {
            **_open(row[f"{side}_minor"], row[f"{side}_currency"]),
            "currency": row[f"{side}_currency"],
            "direction": row[f"{side}_direction"],
            "status": row.get(f"{side}_status"),
        }
        for side in ("here", "there")
    }
    return {**row, **sides}


def _open(minor: int, currency: str) -> dict[str, Any]:
    return {"open_amount_minor": minor, "open_amount": format_minor(minor, currency)}


async def rendered_snapshots(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[SnapshotPublic]:
    """Return the resources of stored snapshots; a row is that of the import, and ``figures`` where it has some."""
    ids = [row["id"] for row in rows if row.get("figures") is not None]
    first = await SnapshotStore(connection).first(ids, limit=DIFFERENCES_SHOWN_MAX) if ids else []
    return [_public(row, [f for f in first if f["snapshot_id"] == row["id"]]) for row in rows]


def _public(row: dict[str, Any], first: Sequence[dict[str, Any]]) -> SnapshotPublic:
    options = SnapshotOptions.model_validate(row["options"], by_name=True)
    figures = row.get("figures")
    count = sum(figures[kind]["count"] for kind in KINDS) if figures is not None else 0
    told: dict[str, Any] = dict.fromkeys(("totals", "created", *KINDS))
    if figures is not None:
        told["created"] = figures["created"]
        told["totals"] = [
            {"currency": c, "here": _figure(of["here"], c), "there": _figure(of["there"], c)}
            for c, of in figures["totals"].items()
        ]
        told |= {kind: _differences(figures[kind], [f for f in first if f["kind"] == kind]) for kind in KINDS}
    return SnapshotPublic.model_validate(
        {
            "error": None,
            **row,
            **options.model_dump(include={"taken_at", "apply", "account", "currency", "direction"}),
            "control_totals": [
                {"currency": currency, **_figure(total, currency)}
                for currency, total in control_totals(options).items()
            ],
            **told,
            "differences_url": f"{SnapshotPublic.collection}/{row['id']}/differences" if first or not count else None,
            "content_url": f"{COLLECTION}/{row['id']}/content" if row["blob_id"] is not None else None,
        }
    )


def _differences(figures: Mapping[str, Any], first: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sums = [
        {"currency": c, "count": count, "here": _amount(here, c), "there": _amount(there, c)}
        for c, (count, here, there) in figures["sums"].items()
    ]
    return {"count": figures["count"], "sums": sums, "first": [difference_of(row) for row in first]}


def _figure(of: Sequence[int], currency: str) -> dict[str, Any]:
    count, minor = of
    return {"count": count, **_amount(minor, currency)}


def _amount(minor: int, currency: str) -> dict[str, Any]:
    return {"amount_minor": minor, "amount": format_minor(minor, currency)}

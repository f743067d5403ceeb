"""An expected transaction as matching reads it, made from the stored one: when it is stated, and when it reopens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from payrec.constants import KEYS_VERSION
from payrec.domain.incoming_transactions import day_number
from payrec.domain.matching.keys import expected_keys, is_proving, tie_key


def quoted_key(key: int | None) -> int | None:
    """Return the key of a reference, by which it is known for good; None where it proves nothing by itself."""
    return key if key is not None and is_proving(key) else None


def open_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return what matching reads of an expected transaction of which nothing is matched."""
    keys = expected_keys(
        reference=row["reference"],
        end_to_end_id=row["end_to_end_id"],
        counterparty_name=row["counterparty_name"],
        counterparty_account=row["counterparty_account"],
        account=row["account"],
        group=row["group_key"],
    )
    return {
        "transaction_id": row["id"],
        "open_minor": row["amount_minor"] - row["settled_before_minor"],
        "total_minor": row["amount_minor"],
        "min_minor": row["min_amount_minor"],
        "max_minor": row["max_amount_minor"],
        **keys._asdict(),
        "tie_key": tie_key(row["external_id"]) if row["external_id"] else _content_key(row),
        "due_day": day_number(row["due_on"]),
        "from_day": day_number(row["expected_from_on"]),
        "to_day": day_number(row["expected_to_on"]),
        "direction": 1 if row["direction"] == "credit" else -1,
        "currency": row["currency"],
        "terms": _terms(row["terms"]),
        "keys_version": KEYS_VERSION,
    }


def _content_key(row: dict[str, Any]) -> int:
    """Return a key of what the transaction says, for ties between transactions without an externalId."""
    texts = ("reference", "end_to_end_id", "counterparty_name", "counterparty_account", "account", "description")
    terms = _terms(row["terms"]) or ()
    return tie_key(row["amount_minor"], row["currency"], str(row["due_on"]), *(row[t] for t in texts), *terms)


def _terms(stated: Sequence[dict[str, Any]] | None) -> list[int] | None:
    """Return the amount and the last day of each term, one after the other; None where there are none."""
    if not stated:
        return None
    numbers = ((term["amountMinor"], day_number(date.fromisoformat(term["until"])) or 0) for term in stated)
    return [number for pair in numbers for number in pair]

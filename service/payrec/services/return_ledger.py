"""What may still be taken back of payments that are held, from where, and what is open of their returns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from payrec.domain.returns import Part, taken_from
from payrec.errors import AmountExceedsOpenError, ConflictError, FieldError, ValidationFailedError

CLOSED: Final = frozenset({"pending", "ignored", "classified"})
"""Statuses of lines that nothing is taken of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A link that is wanted; ``expected_id`` where a person says which item is open again."""

    return_id: UUID
    payment_id: UUID
    amount_minor: int
    expected_id: UUID | None = None


class ReturnLedger:
    """What may still be taken back of the payments that are held, from where, and what is open of the returns."""

    def __init__(self, lines: dict[UUID, dict[str, Any]], parts: list[dict[str, Any]]) -> None:
        self._left = {line_id: row["left_minor"] for line_id, row in lines.items()}
        self._allocated = {line_id: row["allocated_minor"] for line_id, row in lines.items()}
        self._closed = {line_id for line_id, row in lines.items() if row["status"] in CLOSED}
        self._parts: dict[UUID, list[Part]] = defaultdict(list)
        self._less: dict[tuple[UUID, UUID], int] = {}
        self._bound: set[UUID] = set()
        for row in parts:
            if row["contra"]:
                self._bound.add(row["incoming_id"])
            elif row["amount_minor"] > 0:
                part = {name: row[name] for name in ("amount_minor", "settled_minor", "match_id", "expected_id")}
                self._parts[row["incoming_id"]].append(Part(**part))
            elif row["amount_minor"] < 0:
                self._less[row["incoming_id"], row["match_id"]] = row["amount_minor"]

    def take(self, wanted: Wanted) -> list[Part]:
        """Take an amount of a payment for a return, or raise why not and take nothing."""
        amount, payment_id = wanted.amount_minor, wanted.payment_id
        if self._closed & {wanted.return_id, payment_id}:
            raise ConflictError("a transaction that is pending, ignored or classified is not linked")
        if amount > self._left[wanted.return_id] - self._allocated[wanted.return_id] or amount > self._left[payment_id]:
            raise AmountExceedsOpenError("more than is left of the return or the payment")
        parts = self._places(payment_id)
        if wanted.expected_id is not None:
            parts = [part for part in parts if part.expected_id == wanted.expected_id]
            if not parts:
                detail = "is not settled by the payment"
                field = FieldError(pointer="/expectedTransactionId", code="not_settled", detail=detail)
                raise ValidationFailedError.of(field)
            if amount > sum(part.amount_minor for part in parts):
                raise AmountExceedsOpenError("more than the payment settles of the expected transaction")
        taken = taken_from(amount, parts)
        if taken is None:
            detail = "the payment settles several: say which of them is open again"
            field = FieldError(pointer="/expectedTransactionId", code="ambiguous", detail=detail)
            raise ValidationFailedError.of(field)
        self._left[wanted.return_id] -= amount
        self._left[payment_id] -= amount
        for part in taken:
            if part.match_id is not None:
                self._allocated[payment_id] -= part.amount_minor
                self._parts[payment_id] = _reduced(self._parts[payment_id], part)
        return taken

    def _places(self, payment_id: UUID) -> list[Part]:
        """Return from where of a payment can be taken: what matches settled of it, then what is open."""
        parts = []
        for match_id, its in groupby(self._parts[payment_id], key=lambda part: part.match_id):
            own, less = list(its), self._less.get((payment_id, match_id), 0) if match_id is not None else 0
            parts += _within(sum(part.amount_minor for part in own) + less, own) if less else own
        if payment_id in self._bound or sum(part.amount_minor for part in parts) != self._allocated[payment_id]:
            raise ConflictError("the payment is matched with other money")
        unmatched = self._left[payment_id] - self._allocated[payment_id]
        return [*parts, Part(amount_minor=unmatched)] if unmatched else parts


def _within(amount_minor: int, parts: list[Part]) -> list[Part]:
    """Return parts that are an amount together, which is less because an adjustment takes away again what legs take."""
    whole, before, found = sum(part.amount_minor for part in parts), 0, []
    for part in parts:
        through = before + part.amount_minor
        share = through * amount_minor // whole - before * amount_minor // whole
        before = through
        if share:
            found.append(replace(part, amount_minor=share))
    return found


def _reduced(parts: list[Part], taken: Part) -> list[Part]:
    """Return parts less what is taken of one of them."""
    left = []
    for part in parts:
        if (part.match_id, part.expected_id) == (taken.match_id, taken.expected_id):
            part = replace(  # noqa: PLW2901 - the same part, smaller
                part,
                amount_minor=part.amount_minor - taken.amount_minor,
                settled_minor=part.settled_minor - taken.settled_minor,
            )
        if part.amount_minor:
            left.append(part)
    return left

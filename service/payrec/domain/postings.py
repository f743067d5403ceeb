"""Decisions as double entries for the books: what a match, a return or a classification moves, balanced by currency.

Sides are those of double entry, not those of a statement: money that comes in is debited to the account where it came,
and credited to what was owed. Each transaction has one line, of all that is taken of it; an adjustment has a line
against it, and so has what an exchange takes of one currency and gives in another. So the lines of a match are balanced
leg by leg, whatever its legs and adjustments are. What a provider has kept of a payment has two lines of its own, so
that the account of the provider has what it moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

EXCHANGE: Final = "fx"
"""The type of adjustment whose code stands between two currencies."""

CHARGE: Final = "fee"
"""The type of adjustment by whose code a provider's charges go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """Where the books have what; what has no code of its own is in suspense."""

    suspense: str
    receivable: str | None = None
    payable: str | None = None
    accounts: Mapping[str, str] = field(default_factory=dict)
    adjustments: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, str] = field(default_factory=dict)

    def of_account(self, identifier: str | None) -> str:
        """Return the code of the account that a line moved on."""
        return self.accounts.get(identifier or "", self.suspense)

    def of_item(self, sign: int) -> str:
        """Return the code of what is owed to us (credited when it is paid, -1), or by us."""
        return (self.receivable if sign < 0 else self.payable) or self.suspense

    def of_adjustment(self, kind: str) -> str:
        """Return the code of a type of adjustment."""
        return self.adjustments.get(kind, self.suspense)

    def of_category(self, category: str | None, given: str | None) -> str:
        """Return the code that a line was classified with, else that of its category."""
        return given or self.categories.get(category or "", self.suspense)


class End(NamedTuple):
    """A transaction at an end of a leg."""

    id: UUID
    is_line: bool
    """An incoming transaction; else an expected one."""
    sign: int
    """1 where what is taken of it is debited, -1 where it is credited; opposite at the two ends of a leg."""
    currency: str
    name: str | None
    """The account that a line moved on; the external id of an item."""
    whole_minor: int = 1
    """The amount of a line."""
    beside_minor: int = 0
    """What the account moved beside that, debited: of a payment less its charges (``net``), these as a negative. Where
    ``moved_currency`` is another one, all that it moved."""
    moved_currency: str | None = None
    """The currency of ``net``; None where that is not said."""

    @property
    def is_exchanged(self) -> bool:
        """Tell whether its account moved another currency than the payer."""
        return self.moved_currency not in {None, self.currency}


class Settlement(NamedTuple):
    """A leg: what is taken at one end settles the other."""

    taken: End
    settled: End
    taken_minor: int
    settled_minor: int


class Adjusted(NamedTuple):
    """What is settled of a transaction without money."""

    type: str
    id: UUID
    minor: int
    """Signed: what it adds to what is taken of the transaction."""


class Line(NamedTuple):
    """One line of a posting."""

    code: str
    minor: int
    """Debited; negative where it is credited."""
    currency: str
    expected_external_id: str | None = None
    incoming_id: UUID | None = None


def sign_of(direction: str, *, is_line: bool) -> int:
    """Return on which side a transaction is: money in is debited to its account, and an item that it pays credited."""
    return 1 if (direction == "credit") == is_line else -1


def taken_of(settlements: Sequence[Settlement], adjustments: Iterable[Adjusted]) -> list[tuple[End, int]]:
    """Return what a match takes of each transaction, adjustments included. These are of transactions of its legs."""
    minors: dict[tuple[UUID, bool], int] = defaultdict(int)
    ends: dict[tuple[UUID, bool], End] = {}
    of_id: dict[UUID, End] = {}
    for taken, settled, taken_minor, settled_minor in settlements:
        for end, minor in ((taken, taken_minor), (settled, settled_minor)):
            key = (end.id, end.is_line)
            of_id[end.id] = ends.setdefault(key, end)
            minors[key] += minor
    for adjusted in adjustments:
        end = of_id[adjusted.id]
        minors[end.id, end.is_line] += adjusted.minor
    return [(end, minors[key]) for key, end in ends.items()]


def share_of(line: End, minor: int) -> int:
    """Return what of all that a provider has kept of a line is kept of an amount of it.

    What the account moved is rounded towards zero, as it is in the reconciliation statement. In another currency it is
    all of that which is told.
    """
    own = 0 if line.is_exchanged else line.sign
    net_minor = own * line.whole_minor + line.beside_minor
    moved_minor = abs(net_minor) * minor // line.whole_minor
    return (moved_minor if net_minor > 0 else -moved_minor) - own * minor


def lines_of_match(
    settlements: Sequence[Settlement], adjustments: Sequence[Adjusted], codes: Codes, charged: Mapping[UUID, int]
) -> tuple[Line, ...]:
    """Return the lines of what a match takes: of each transaction one, then adjustments and exchanges by their codes.

    ``charged`` says what is kept of lines by their ids.
    """
    ends = taken_of(settlements, adjustments)
    of_id = {end.id: end for end, _ in ends}
    against: list[Line] = []
    for taken, settled, taken_minor, settled_minor in settlements:
        if taken.currency != settled.currency or taken_minor != settled_minor:
            code = codes.of_adjustment(EXCHANGE)
            against.append(Line(code, -taken.sign * taken_minor, taken.currency))
            against.append(Line(code, -settled.sign * settled_minor, settled.currency))
    for adjusted in adjustments:
        end = of_id[adjusted.id]
        against.append(Line(codes.of_adjustment(adjusted.type), -end.sign * adjusted.minor, end.currency))
    for end, _ in ends:
        against += charges_of(end, charged.get(end.id, 0), codes)
    own = [_of_end(end, minor, codes) for end, minor in ends]
    return (*(line for line in own if line.minor), *_summed(against))


def lines_beside(taken: End, minor: int, kind: str, codes: Codes) -> tuple[Line, ...]:
    """Return the lines of what a match takes of a transaction beside its legs, by an adjustment."""
    against = Line(codes.of_adjustment(kind), -taken.sign * minor, taken.currency)
    return tuple(line for line in (_of_end(taken, minor, codes), against) if line.minor)


def lines_of_classification(
    line: End, minor: int, category: str | None, given: str | None, codes: Codes, charged_minor: int
) -> tuple[Line, ...]:
    """Return the lines of what a line is that nobody expected, and of what is kept of it."""
    against = Line(codes.of_category(category, given), -line.sign * minor, line.currency)
    return (_of_end(line, minor, codes), against, *charges_of(line, charged_minor, codes)) if minor else ()


def lines_against(line: End, minor: int, charged_minor: int, codes: Codes) -> tuple[Line, ...]:
    """Return the lines of what another line takes of a line without a match, and of what is kept of that."""
    return (_of_end(line, minor, codes), *charges_of(line, charged_minor, codes))


def charges_of(line: End, charged_minor: int, codes: Codes) -> tuple[Line, ...]:
    """Return the lines of what a provider has kept of a line: a negative amount, debited to its account.

    Or of what its account has moved in another currency, which the line itself has in the payer's: an exchange.
    """
    currency, kind = line.currency, CHARGE
    if line.is_exchanged:
        currency, kind = line.moved_currency or currency, EXCHANGE
    own = Line(codes.of_account(line.name), charged_minor, currency)
    return _summed([own, Line(codes.of_adjustment(kind), -charged_minor, currency)])


def countered(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return the lines that take others back."""
    return tuple(line._replace(minor=-line.minor) for line in lines)


def netted(*postings: Iterable[Line]) -> tuple[Line, ...]:
    """Return what postings come to together."""
    return _summed(line for lines in postings for line in lines)


def is_balanced(lines: Iterable[Line]) -> bool:
    """Tell whether as much is debited as credited, in each currency."""
    sums: dict[str, int] = defaultdict(int)
    for line in lines:
        sums[line.currency] += line.minor
    return not any(sums.values())


def told(line: Line) -> dict[str, Any]:
    """Return a line as the interface has it."""
    found: dict[str, Any] = {
        "code": line.code,
        "direction": "debit" if line.minor > 0 else "credit",
        "amountMinor": abs(line.minor),
        "currency": line.currency,
    }
    if line.expected_external_id is not None:
        found["expectedExternalId"] = line.expected_external_id
    if line.incoming_id is not None:
        found["incomingTransactionId"] = str(line.incoming_id)
    return found


def read(stored: Mapping[str, Any]) -> Line:
    """Return a line that was told."""
    incoming_id = stored.get("incomingTransactionId")
    return Line(
        stored["code"],
        stored["amountMinor"] if stored["direction"] == "debit" else -stored["amountMinor"],
        stored["currency"],
        stored.get("expectedExternalId"),
        None if incoming_id is None else UUID(incoming_id),
    )


def _of_end(end: End, minor: int, codes: Codes) -> Line:
    if end.is_line:
        code = codes.of_adjustment(EXCHANGE) if end.is_exchanged else codes.of_account(end.name)
        return Line(code, end.sign * minor, end.currency, None, end.id)
    return Line(codes.of_item(end.sign), end.sign * minor, end.currency, end.name)


def _summed(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Return lines with equal words as one, without those that come to nothing."""
    sums: dict[tuple[str, str, str | None, UUID | None], int] = defaultdict(int)
    for line in lines:
        sums[line.code, line.currency, line.expected_external_id, line.incoming_id] += line.minor
    return tuple(
        Line(code, minor, currency, external_id, incoming_id)
        for (code, currency, external_id, incoming_id), minor in sums.items()
        if minor
    )

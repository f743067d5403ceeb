"""Which payment a return takes back: decided for all open returns together, so that no order of theirs matters.

A return takes back a payment of the opposite direction that it names by an id of the bank or payer, or that is as large
and shares a reference or the counterparty with it. What fits several payments alike is ambiguous and stays open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Final

from payrec.domain.matching.keys import account_key, is_proving, name_key, reference_key, remittance_keys
from payrec.domain.matching.rules import Reason

RETURN_DAYS_MAX: Final = 400
"""Days after a payment in which it is taken back: thirteen months, as an unauthorised SEPA direct debit may be."""

ROUNDS_MAX: Final = 10
"""Rounds in which what was linked before may leave others with a single payment."""

QUOTED_CACHED_MAX: Final = 4_096
"""Texts whose keys are remembered: a run looks at most returns twice, before it and in its commit."""


class Naming(IntEnum):
    """How a return points to a payment; only the best way counts."""

    NONE = 0
    PARTY = 1
    """As large, and the same counterparty or mandate."""
    REFERENCE = 2
    """As large, both quote the same reference, and the counterparties do not differ."""
    ID = 3
    """It quotes the payment's own id."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a booked line says, as far as returns look at it."""

    amount_minor: int
    left_minor: int
    """Of a return what is open, of a payment what has not been taken back."""
    currency: str
    direction: str
    booking_day: int
    account: str | None = None
    """The own one."""
    end_to_end_id: str | None = None
    bank_reference: str | None = None
    transaction_id: str | None = None
    instruction_id: str | None = None
    uetr: str | None = None
    mandate_id: str | None = None
    structured_reference: str | None = None
    remittance: str | None = None
    counterparty_name: str | None = None
    counterparty_account: str | None = None
    waits: bool = False
    """A payment that a run has yet to look at: it counts, but nothing is linked to it."""
    crowded: bool = False
    """A return of whose amount there are more lines than were looked at: only an id names one of them, or the reference
    of an item that it settles."""
    asked: frozenset[int] = frozenset()
    """Of a payment, keys of references of items that it settles, or quotes while it is open; if looked for."""

    @cached_property
    def ids(self) -> frozenset[int]:
        """Keys of the ids that banks and payers gave the payment, as far as they could prove anything."""
        texts = (self.end_to_end_id, self.bank_reference, self.transaction_id, self.instruction_id, self.uetr)
        return _proving(reference_key(text) for text in texts)

    @cached_property
    def quoted(self) -> frozenset[int]:
        """Keys of the references in its texts, as far as they could prove anything."""
        return _quoted(self.remittance, self.structured_reference)

    @cached_property
    def own(self) -> int | None:
        """Key of the own account."""
        return account_key(self.account)

    @cached_property
    def party_account(self) -> int | None:
        """Key of the counterparty's account."""
        return account_key(self.counterparty_account)

    @cached_property
    def party_name(self) -> int | None:
        """Key of the counterparty's name. Making it takes most of the time that looking at a payment does."""
        return name_key(self.counterparty_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """What was decided about the returns, by their places."""

    links: tuple[tuple[int, int, int], ...]
    """Return, payment and amount, in the order of the returns."""
    reasons: dict[int, Reason]
    """Why each of the others stays open."""
    waiting: frozenset[int]
    """Those of the others that name a payment at which a run has yet to look."""


def naming(given: Line, payment: Line) -> Naming:
    """Tell how a return points to a payment, whatever is left of either; NONE where it cannot take it back."""
    if given.currency != payment.currency or given.direction == payment.direction:
        return Naming.NONE
    if not 0 <= given.booking_day - payment.booking_day <= RETURN_DAYS_MAX:
        return Naming.NONE
    if given.own is not None and payment.own is not None and given.own != payment.own:
        return Naming.NONE
    if payment.ids & (given.ids | given.quoted):
        return Naming.ID
    if given.amount_minor != payment.amount_minor:
        return Naming.NONE
    one, other = given.party_account, payment.party_account
    if one is None or other is None:
        one, other = given.party_name, payment.party_name
    same = one is not None and one == other
    differ = one is not None and other is not None and not same
    if not differ and given.quoted & payment.quoted:
        return Naming.REFERENCE
    mandate = given.mandate_id is not None and given.mandate_id == payment.mandate_id
    return Naming.PARTY if same or mandate else Naming.NONE


def linked(returns: Sequence[Line], payments: Sequence[Line], candidates: Mapping[int, Sequence[int]]) -> Linked:
    """Link returns to payments. ``candidates`` has for each return the places of the payments to look at.

    A link is the whole of what is open of the return; several returns never take more of a payment than is left.
    """
    named = {
        place: [
            (how, at)
            for at in candidates.get(place, ())
            if (how := naming(given, payments[at])) is Naming.ID
            or (how and not given.crowded)
            or (how is Naming.REFERENCE and given.quoted & payments[at].asked)
        ]
        for place, given in enumerate(returns)
    }
    left = [payment.left_minor for payment in payments]
    links: dict[int, int] = {}
    reasons: dict[int, Reason] = {}
    waiting: set[int] = set()
    for _ in range(ROUNDS_MAX):
        reasons, waiting = {}, set()
        wanted: dict[int, list[tuple[Naming, int]]] = defaultdict(list)
        for place, given in enumerate(returns):
            if place in links:
                continue
            best = _best(given, [(how, at) for how, at in named[place] if left[at] >= given.left_minor], payments)
            if len(best) == 1 and not payments[best[0][1]].waits:
                wanted[best[0][1]].append((best[0][0], place))
            elif len(best) > 1:
                reasons[place] = Reason.AMBIGUOUS
            else:
                reasons[place] = Reason.BUDGET_EXHAUSTED if given.crowded and not best else Reason.NO_CANDIDATE
            if any(payments[at].waits for _, at in best):
                waiting.add(place)
        before = len(links)
        for at, wanting in wanted.items():
            for place in _admitted(wanting, returns, left[at]):
                links[place] = at
                left[at] -= returns[place].left_minor
            reasons.update((place, Reason.AMBIGUOUS) for _, place in wanting if place not in links)
        if len(links) == before:
            break
    found = tuple((place, at, returns[place].left_minor) for place, at in sorted(links.items()))
    reasons = {place: why for place, why in reasons.items() if place not in links}
    return Linked(links=found, reasons=reasons, waiting=frozenset(waiting - links.keys()))


def _best(given: Line, candidates: list[tuple[Naming, int]], payments: Sequence[Line]) -> list[tuple[Naming, int]]:
    """Return the candidates that are named best; among several, those that are exactly as large."""
    most = max((how for how, _ in candidates), default=Naming.NONE)
    best = [(how, at) for how, at in candidates if how == most]
    exact = [(how, at) for how, at in best if payments[at].amount_minor == given.amount_minor]
    return exact if len(best) > 1 and exact else best


def _admitted(wanting: list[tuple[Naming, int]], returns: Sequence[Line], left_minor: int) -> list[int]:
    """Return which returns take of a payment: the better named and earlier first, and of equals all or none."""

    def rank(one: tuple[Naming, int]) -> tuple[int, int]:
        return -one[0], returns[one[1]].booking_day

    admitted: list[int] = []
    for _, equals in groupby(sorted(wanting, key=rank), key=rank):
        places = [place for _, place in equals]
        left_minor -= sum(returns[place].left_minor for place in places)
        if left_minor < 0:
            break
        admitted += places
    return admitted


@lru_cache(maxsize=QUOTED_CACHED_MAX)
def _quoted(remittance: str | None, structured_reference: str | None) -> frozenset[int]:
    return _proving(remittance_keys(remittance, structured_reference))


def _proving(keys: Iterable[int | None]) -> frozenset[int]:
    return frozenset(key for key in keys if key is not None and is_proving(key))

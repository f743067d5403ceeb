"""When money against money is looked for: the proved before anything is guessed, the rest at the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from payrec.domain.matching.columns import Sides
from payrec.domain.matching.compete import Taken
from payrec.domain.matching.credit_notes import credit_notes
from payrec.domain.matching.money_pairs import Contra, decided, free, no_edges, together
from payrec.domain.matching.refunds import refunds
from payrec.domain.matching.rules import MatchingRules, MatchKind
from payrec.domain.matching.score import without
from payrec.domain.matching.transfers import OwnMoney, arrivals, own_money

_NO_CODES: Final = pl.DataFrame(schema={"code": pl.Int64})


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Pairs of one side that a person has rejected, as the ``code`` of their rows."""

    items: pl.DataFrame = field(default_factory=_NO_CODES.clone)
    lines: pl.DataFrame = field(default_factory=_NO_CODES.clone)


@dataclass(frozen=True, slots=True)
class Money:
    """What is known of the tenant's own money, and what has been proposed of money against money so far."""

    said: Sides
    """The sides before repetitions were looked for: what was paid twice is what is given back most."""
    own: OwnMoney
    found: Contra
    parts: pl.DataFrame
    """Payments of which a part may have been given back, as ``EDGE_SCHEMA``: the amount does not speak for it."""
    refused: Refused

    def held(self, busy: Taken) -> Taken:
        """Return the rows that nothing else may have any more, beside those that are ``busy``."""
        return busy.joined(self.found.taken.items, pl.concat([self.found.taken.lines, self.own.lines]))

    def reasons(self) -> pl.DataFrame:
        """Return why lines of own money stay open, as findings."""
        return self.own.findings


def prepared(sides: Sides, rules: MatchingRules, refused: Refused) -> Money:
    """Find out which lines move the tenant's own money; the others may pay items."""
    return Money(sides, own_money(sides, rules, refused.lines), together([]), no_edges(), refused)


def proved(money: Money, sides: Sides, taken: Taken, rules: MatchingRules) -> Money:
    """Propose transfers, and refunds that quote what they give back in whole, among the lines not ``taken``."""
    moved = decided(free(money.own.pairs, taken.lines), MatchKind.TRANSFER)
    lines = pl.concat([taken.lines, moved.taken.lines, money.own.lines])
    pairs = without(refunds(money.said, sides, lines, rules, quoted=True), money.refused.lines)
    whole = pl.col("difference_minor") == 0
    returned = decided(pairs.filter(whole), MatchKind.REFUND)
    return replace(money, found=together([money.found, moved, returned]), parts=pairs.filter(~whole))


def remaining(money: Money, sides: Sides, taken: Taken, rules: MatchingRules) -> Money:
    """Propose what is left: refunds by counterparty and amount, those in part, payouts by amount, and credit notes."""
    busy = money.held(taken)
    pairs = without(refunds(money.said, sides, busy.lines, rules, quoted=False), money.refused.lines)
    returned = decided(pairs, MatchKind.REFUND)
    parts = free(money.parts, pl.concat([busy.lines, returned.taken.lines]))
    in_part = decided(parts, MatchKind.REFUND)
    rest = pl.concat([busy.lines, returned.taken.lines, in_part.taken.lines])
    arrived = decided(without(arrivals(sides, rest, rules), money.refused.lines), MatchKind.TRANSFER)
    notes = without(credit_notes(sides, busy.items, rules), money.refused.items)
    noted = decided(notes, MatchKind.CREDIT_NOTE)
    return replace(money, found=together([money.found, returned, in_part, arrived, noted]))

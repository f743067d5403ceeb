"""What happened to the lines of accounts, one fact after the other, and what statements must say of it.

Nothing here asks the service: a statement is counted anew from the facts that were known at an instant, for any account
and cut-off. Where the cut-off is locked, these are the facts from before the lock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from support.account_lives import PARTS

EVER = "9999-12-31"
RETURNED = "PMNT-RCDT-RRTN"
"""What a bank calls a line that takes back an earlier one."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A line as it is stated; ``moved`` is signed, and what of the amount came to the account."""

    id: str
    account: str
    day: str
    amount: int
    moved: int
    credit: bool
    net: bool = False
    pending: bool = False
    returns: bool = False

    @classmethod
    def of(cls, row: Row, *, is_new: bool) -> Line:
        """Read a row of the list; one that was announced before is booked."""
        moved = row["net"] or row
        return cls(
            id=row["id"],
            account=row["account"],
            day=row["bookingDate"],
            amount=row["amountMinor"],
            moved=moved["amountMinor"] * (1 if moved["direction"] == "credit" else -1),
            credit=row["direction"] == "credit",
            net=row["net"] is not None,
            pending=is_new and row["status"] == "pending",
            returns=row["bankTransactionCode"] == RETURNED,
        )


@dataclass(frozen=True)
class Matched:
    """What a match has of each line, from which day on, and the other line of each one in a transfer."""

    id: str
    day: str
    takes: dict[str, int]
    legs: dict[tuple[str, str], int]
    """What lines pay of items."""
    across: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> Matched:
        """Read a row of the list."""
        takes: Counter[str] = Counter()
        legs: dict[tuple[str, str], int] = {}
        across: dict[str, str] = {}
        for leg in row["legs"]:
            one, other = leg["incomingTransactionId"], leg["contraIncomingTransactionId"]
            takes[one] += leg["amountMinor"]
            if other is None:
                legs[one, leg["expectedTransactionId"]] = leg["amountMinor"]
                continue
            takes[other] += leg["settledMinor"]
            across |= {one: other, other: one} if row["kind"] == "transfer" else {}
        for adjustment in row["adjustments"]:
            if (line := adjustment.get("incomingTransactionId")) is not None:
                takes[line] += adjustment["amountMinor"]
        return cls(row["id"], row["effectiveOn"], dict(takes), legs, across)


@dataclass(frozen=True)
class Link:
    """What a return took of a payment, and of which match, if it was matched."""

    back: str
    payment: str
    minor: int
    match: str | None
    item: str | None


@dataclass(frozen=True)
class Whole:
    """A line that is ignored or classified from a day on; without a status, not any more."""

    line: str
    status: str | None = None
    day: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of an account on a day: ``opening``, ``closing`` of a statement, or ``book``."""

    kind: str
    account: str
    day: str
    minor: int


@dataclass(frozen=True)
class Lock:
    """All days until one are locked, of an account or of all."""

    id: str
    account: str | None
    through: str

    def binds(self, account: str, day: str) -> bool:
        """Tell whether it locks a day of an account."""
        return self.account in {None, account} and day <= self.through


@dataclass(frozen=True)
class Ended:
    """A match was taken back, or a lock reopened."""

    id: str


Fact = Line | Matched | Link | Whole | Figure | Lock | Ended


@dataclass
class Known:
    """What is known when so many facts are."""

    lines: dict[str, Line] = field(default_factory=dict)
    matches: dict[str, Matched] = field(default_factory=dict)
    locks: dict[str, Lock] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    whole: dict[str, Whole] = field(default_factory=dict)
    figures: dict[tuple[str, str], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> Known:
        """Learn these facts."""
        known = cls()
        for fact in facts:
            known.learn(fact)
        return known

    def learn(self, fact: Fact) -> None:
        """Learn another one; the same line again is booked."""
        match fact:
            case Line():
                self.lines[fact.id] = fact
            case Matched():
                self.matches[fact.id] = fact
            case Link():
                self.links.append(fact)
            case Whole(status=None):
                del self.whole[fact.line]
            case Whole():
                self.whole[fact.line] = fact
            case Figure():
                self.figures[fact.kind, fact.account][fact.day] = fact.minor
            case Lock():
                self.locks[fact.id] = fact
            case Ended():
                self.matches.pop(fact.id, None)
                self.locks.pop(fact.id, None)

    def is_locked(self, account: str, day: str) -> bool:
        """Tell whether a day of an account is locked."""
        return any(lock.binds(account, day) for lock in self.locks.values())

    def first_open(self, accounts: Iterable[str]) -> str:
        """Return the first day that is open for all of these."""
        named = {None, *accounts}
        through = max((lock.through for lock in self.locks.values() if lock.account in named), default=None)
        return "" if through is None else str(date.fromisoformat(through) + timedelta(days=1))

    def effective_on(self, line_ids: Iterable[str]) -> str:
        """Return from which day on a decision about lines counts that says none."""
        lines = [self.lines[line_id] for line_id in line_ids]
        return max(*(line.day for line in lines), self.first_open(line.account for line in lines))

    def opening(self, account: str) -> tuple[str, int] | None:
        """Return with which day an account begins, and with how much: as was said, else by its earliest statement."""
        found = self.figures["opening", account] or self.figures["begins", account]
        return min(found.items()) if found else None

    def left_of(self, match: Matched, line_id: str, item: str) -> int:
        """Return what of a line a match still gives to an item."""
        taken = sum(k.minor for k in self.links if (k.payment, k.match, k.item) == (line_id, match.id, item))
        return match.legs.get((line_id, item), 0) - taken

    def shares(self, line: Line, cut_off: str = EVER) -> dict[str, int]:
        """Return what of a line's amount is of each part at a cut-off, in the order in which parts of a net are cut."""
        if line.pending:
            return {"pending": line.amount}
        if line.amount == 0:
            return {"ignored": 0}
        if (whole := self.whole.get(line.id)) is not None and whole.day <= cut_off:
            links = [k for k in self.links if line.id in {k.back, k.payment}]
            gone = sum(k.minor for k in links)
            returned = sum(k.minor for k in links if max(self.lines[k.back].day, self.lines[k.payment].day) <= cut_off)
            return {"returned": returned, "open": gone - returned, str(whole.status): line.amount - gone}
        found = dict.fromkeys(("allocated", "returned", "inTransit"), 0)
        for match in self.matches.values():
            if match.day <= cut_off:
                found["allocated"] += match.takes.get(line.id, 0)
            elif line.id in match.across and self.lines[match.across[line.id]].day > cut_off:
                found["inTransit"] += match.takes[line.id]
        for link in self.links:
            if line.id not in {link.back, link.payment}:
                continue
            if max(self.lines[link.back].day, self.lines[link.payment].day) > cut_off:
                continue
            found["returned"] += link.minor
            match_of = self.matches.get(link.match or "")
            if line.id == link.payment and match_of is not None and match_of.day <= cut_off:
                found["allocated"] -= link.minor
        return {**found, "open": line.amount - sum(found.values())}

    def moved(self, line: Line, cut_off: str) -> dict[str, int]:
        """Return what of a line's movement is of each part: of a net, each share up to the whole below it."""
        found, told, before = {}, 0, 0
        for part, minor in self.shares(line, cut_off).items():
            told += minor
            if not line.net:
                found[part] = minor if line.credit else -minor
            elif told == line.amount:
                found[part] = line.moved - before
            else:
                up_to = abs(line.moved) * told // line.amount * (1 if line.moved > 0 else -1)
                found[part] = up_to - before
            before += found[part]
        return found

    def statement(self, account: str, cut_off: str) -> dict[str, Any] | None:
        """Return what a statement says; None of a cut-off before what the account begins with."""
        begins, opening = self.opening(account) or ("", 0)
        if begins and cut_off < str(date.fromisoformat(begins) - timedelta(days=1)):
            return None
        parts = dict.fromkeys(PARTS, (0, 0))
        for line in self.lines.values():
            if line.account == account and begins <= line.day <= cut_off:
                for part, minor in self.moved(line, cut_off).items():
                    if minor:
                        parts[part] = (parts[part][0] + 1, parts[part][1] + minor)
        balance = opening + sum(minor for part, (_, minor) in parts.items() if part != "pending")
        closed = max(((day, n) for day, n in self.figures["closing", account].items() if day <= cut_off), default=None)
        book = self.figures["book", account].get(cut_off)
        return {
            **parts,
            "openingBalanceMinor": opening,
            "openingOn": begins or None,
            "balanceMinor": balance,
            "statementBalanceMinor": None if closed is None else closed[1],
            "statementBalanceOn": None if closed is None else closed[0],
            "differenceMinor": None if closed is None else closed[1] - balance,
            "bookBalanceMinor": book,
            "bookDifferenceMinor": None if book is None else book - balance,
        }


def told(facts: list[Fact], account: str, cut_off: str) -> tuple[dict[str, Any] | None, bool]:
    """Return what must be said of an account at a cut-off when these facts are known, and whether it is locked.

    It is said as before the lock since which the day has been locked without a break, by whichever locks.
    """
    binding: set[str] = set()
    since = None
    for place, fact in enumerate(facts):
        if isinstance(fact, Lock) and fact.binds(account, cut_off):
            since = place if not binding else since
            binding.add(fact.id)
        elif isinstance(fact, Ended):
            binding.discard(fact.id)
    locked = bool(binding)
    return Known.of(facts[:since] if locked else facts).statement(account, cut_off), locked

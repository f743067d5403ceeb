"""Pages of a statement: equal lines on two of its pages are two payments, in however many files the pages come.

A page counts its lines for itself (``Entry.occurrence``), because it cannot know what stands on the others. What it
shows is kept by ``page_line``, which gives each a number among the equal lines of all pages of its statement; that
number is what its identity is made with. The same page shows the same lines whenever it comes, so it gets the same
numbers; numbers count from 0 without a gap, so they are those of a statement that comes as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from payrec.domain.identity import bank_key, content_key
from payrec.domain.statements import Entry, Statement

LINE_BYTES: Final = 16
"""Of what names equal lines of a statement."""

_SEPARATOR: Final = b"\x1f"
"""Unit separator; no name of a statement has it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a statement."""

    statement: str
    """What is the same on all pages of it. The account is not needed: equal lines are of one account."""
    number: int
    """Which page it is; 0 where the bank does not say it."""
    opening_minor: int
    """The balance that it begins with, because there are banks that give all pages one number; 0 where it has none."""


def page_of(statement: Statement) -> Page | None:
    """Return which page a statement is if it is one at all; None where nothing tells pages apart.

    Whether it is one, ``Statement.is_page`` says: of some formats only at the end. The number of a statement that is
    nothing but zeros is none, and whoever writes it may count pages through everything that he sends. Pages without a
    number that have an id each are known as those of one statement in a file where one goes on from the other.
    """
    name = statement.sequence_number or statement.first_page_id or statement.statement_id or ""
    number = statement.page_number if name.strip("0") else None
    opening = statement.balance("opening")
    if number is None and opening is None:
        return None
    return Page(name, number or 0, opening.signed_minor if opening is not None else 0)


@dataclass(frozen=True, slots=True)
class PageLine:
    """A line that a page shows."""

    key: bytes
    """What it has in common with equal lines of the statement."""
    page: Page
    occurrence: int
    """How many of these come before it on the page."""
    fingerprint: bytes
    account: str | None
    bank_id: str | None
    """The id by which the bank knows it; None for one that is known by its content."""

    def identity(self, number: int) -> bytes:
        """Return the identity that it has with a number among the equal lines of all pages."""
        if self.bank_id is None:
            return content_key(self.fingerprint, number)
        return bank_key(self.account, self.bank_id, number)


def page_line(page: Page, entry: Entry) -> PageLine | None:
    """Return the line that an entry is on its page; None for one whose id is declared, which is one wherever it is."""
    if entry.external_id is not None:
        return None
    bank_id = entry.identity_value if entry.identity_kind == "bank" else None
    if bank_id is None:
        equal = entry.fingerprint
    else:
        # The same id with another amount, direction or date is another payment (``identity_reused``).
        content = f"{entry.direction}{entry.amount_minor}{entry.currency}{entry.booking_on}"
        equal = bank_key(entry.account, bank_id, 0) + content.encode()
    key = sha256(page.statement.encode() + _SEPARATOR + equal).digest()[:LINE_BYTES]
    return PageLine(key, page, entry.occurrence, entry.fingerprint, entry.account, bank_id)

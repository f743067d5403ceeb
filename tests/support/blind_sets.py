"""Items of one counterparty, and lines that pay some of them together or one of them in parts; nobody has named any."""

from __future__ import annotations

from payrec.domain.matching.rules import Confidence, MatchingRules, Uniqueness
from support.matching_frames import Item, Line

AUTO = MatchingRules(auto_accept=True, auto_accept_min_confidence="high")
IBAN = "DE89370400440532013000"
AMOUNTS = (102_347, 58_813, 215_909, 77_401, 131_117, 46_229, 98_893, 164_051)
"""Such that no other set of few has the sum of a run."""
MEDIUM = (Confidence.MEDIUM, Uniqueness.UNIQUE, False)


def items_of(*amounts: int, iban: str | None = IBAN, name: str | None = "Ada Ltd") -> list[Item]:
    return [
        Item(f"e{at}", amount=amount, iban=iban, name=name, due=20_590 + at, reference=f"INV-7{at:04d}")
        for at, amount in enumerate(amounts)
    ]


def paying(items: list[Item], *members: int, id: str = "x") -> Line:  # noqa: A002 - as the field is called
    return Line(id, amount=sum(items[at].amount for at in members), iban=IBAN)


def parts(*amounts: int) -> list[Line]:
    return [Line(f"x{at}", amount=amount, iban=IBAN, day=20_600 + 12 * at) for at, amount in enumerate(amounts)]

"""What the scenarios of generated data share: payers, references, texts, and the tables that grow.

All chance comes from one generator of the given seed. Plain Python on purpose: a million rows take a minute, and a
scenario reads like the story that it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from payrec.bench.dataset import Rates
from payrec.bench.vocabularies import (
    BRANCHES,
    COMMON_REFERENCES,
    FIRST_NAMES,
    IBAN_DIGITS,
    LEGAL_FORMS,
    NOISES,
    QUOTES,
    SURNAME_ENDS,
    SURNAME_STARTS,
    SYLLABLES,
)

DAYS: Final = 90
"""Days over which items are due."""

FIRST_DAY: Final = date(2026, 1, 1)

ITEMS_PER_PAYER: Final = 8

PRICES: Final = 300
"""Entries of the price list."""

RATES: Final = Rates(
    per_eur={"EUR": 1.0, "USD": 1.09, "GBP": 0.85, "CHF": 0.95, "PLN": 4.28, "JPY": 163.0, "KWD": 0.335},
    exponent={"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "PLN": 2, "JPY": 0, "KWD": 3},
)

_CURRENCIES: Final = ("EUR",) * 11 + ("USD",) * 3 + ("GBP",) * 2 + ("CHF", "PLN", "JPY", "KWD")
_COMMON_EUROS: Final = (9.99, 19.99, 29.90, 49.00, 59.00, 99.00, 120.00)
_IBAN_LETTERS: Final = str.maketrans({chr(ord("A") + n): str(10 + n) for n in range(26)})
_NOT_PROVIDED: Final = "NOTPROVIDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardness:
    """How unkind the data are; shares are of 1."""

    silent_accounts: float
    """Lines that do not say the payer's account."""
    silent_names: float
    """Lines that do not say the payer's name."""
    shared_names: float
    """Payers who are called as somebody else."""
    shared_accounts: float
    """Payers who pay from somebody else's account."""
    round_amounts: float
    """Items of a round amount, as others have."""
    listed_amounts: float
    """Items of an amount of the price list."""
    repeated_amounts: float
    """Items of an amount that the payer's items often have."""
    common_references: float
    """Items without a reference of their own (where the scenario needs none) that have one of many items' instead."""
    payables: float
    """Items that the company pays itself."""


@dataclass(frozen=True, slots=True)
class Payer:
    """A counterparty."""

    number: int
    name: str
    iban: str
    currency: str
    customer: int
    is_person: bool


@dataclass(frozen=True, slots=True)
class Item:
    """An expected transaction that was made."""

    row: int
    payer: Payer
    amount: int
    currency: str
    due: int
    reference: str


@dataclass(slots=True)
class Tables:
    """The rows so far. Ids are row numbers here."""

    expected: list[tuple[Any, ...]] = field(default_factory=list)
    incoming: list[tuple[Any, ...]] = field(default_factory=list)
    truth: list[tuple[int | None, int | None, str, int | None]] = field(default_factory=list)


class Maker:
    """Makes items and lines."""

    def __init__(self, *, rows: int, seed: int, hardness: Hardness) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - data, not a secret
        self.hardness = hardness
        self.tables = Tables()
        self._payers: list[Payer] = []
        self._often: dict[tuple[int, str], int] = {}
        self._prices = sorted(self._euros() for _ in range(PRICES))
        self._references = 100_000 + self.dice.randrange(1_000_000)
        self._pool = [self.new_payer() for _ in range(max(rows // ITEMS_PER_PAYER * 9 // 10, 4))]

    # Chance ----------------------------------------------------------------------------------------------------

    def happens(self, probability: float) -> bool:
        """Throw the dice."""
        return self.dice.random() < probability

    def pick(self, choices: Any) -> Any:
        """Return one of a sequence, all equally likely."""
        return choices[int(self.dice.random() * len(choices))]

    def number(self, low: int, high: int) -> int:
        """Return a whole number between both, both included."""
        return low + int(self.dice.random() * (high - low + 1))

    # Payers ----------------------------------------------------------------------------------------------------

    def payer(self) -> Payer:
        """Return a payer; some come much more often than others."""
        return self._pool[int(self.dice.random() ** 1.5 * len(self._pool))]

    def new_payer(self) -> Payer:
        """Return a payer of whom nothing is there yet."""
        is_person = self.happens(0.35)
        name, iban = self._person() if is_person else self._company(), self._iban()
        if self._payers:
            if self.happens(self.hardness.shared_names):
                name = self.pick(self._payers).name
            if self.happens(self.hardness.shared_accounts):
                iban = self.pick(self._payers).iban
        made = Payer(len(self._payers), name, iban, self.pick(_CURRENCIES), self.number(10_000, 99_999), is_person)
        self._payers.append(made)
        return made

    def _surname(self) -> str:
        return f"{self.pick(SURNAME_STARTS)}{self.pick(SURNAME_ENDS)}"

    def _person(self) -> str:
        if self.happens(0.3):
            return f"{self.pick(FIRST_NAMES)} {self._surname()}-{self._surname()}"
        return f"{self.pick(FIRST_NAMES)} {self.pick(FIRST_NAMES)[0]}. {self._surname()}"

    def _company(self) -> str:
        if self.happens(0.3):
            return f"{self._surname()} & {self._surname()} {self.pick(BRANCHES)} {self.pick(LEGAL_FORMS)}"
        stem = "".join(self.pick(SYLLABLES) for _ in range(self.number(2, 4))).capitalize()
        return f"{stem} {self.pick(BRANCHES)} {self.pick(LEGAL_FORMS)}"

    def _iban(self) -> str:
        """Return an IBAN with the check digits of ISO 13616."""
        country = self.pick(tuple(IBAN_DIGITS))
        digits = IBAN_DIGITS[country]
        bban = f"{self.dice.getrandbits(80) % 10**digits:0{digits}d}"
        if country == "IT":
            bban = f"{chr(ord('A') + self.number(0, 25))}{bban}"
        check = 98 - int(f"{bban}{country}00".translate(_IBAN_LETTERS)) % 97
        return f"{country}{check:02d}{bban}"

    # Money and time --------------------------------------------------------------------------------------------

    def minor(self, euros: float, currency: str) -> int:
        """Return an amount of euros in minor units of a currency, at least 1."""
        return max(round(euros * RATES.per_eur[currency] * 10.0 ** RATES.exponent[currency]), 1)

    def amount(self, payer: Payer, currency: str) -> int:
        """Return an amount such as invoices to the payer have."""
        if not self.happens(self.hardness.repeated_amounts):
            return self._drawn(currency)
        return self._often.setdefault((payer.number, currency), self._drawn(currency))

    def _euros(self) -> float:
        return self.dice.lognormvariate(5.5, 1.3) + 3.0

    def _drawn(self, currency: str) -> int:
        if self.happens(self.hardness.listed_amounts):
            return self.minor(self.pick(self._prices), currency)
        return self.unrelated_amount(currency)

    def unrelated_amount(self, currency: str) -> int:
        """Return an amount that has nothing to do with what the payer or anybody else often pays."""
        euros = self._euros()
        if self.happens(self.hardness.round_amounts):
            unit = 5 * 10 ** RATES.exponent[currency] * (20 if currency == "JPY" else 1)
            return int(max(self.minor(euros, currency) // unit, 1) * unit)
        return self.minor(euros, currency)

    def common_amount(self, currency: str) -> int:
        """Return an amount that many items have."""
        return self.minor(self.pick(_COMMON_EUROS), currency)

    def due(self) -> int:
        """Return a day on which an item is due, from 0."""
        return self.number(0, DAYS - 1)

    def lateness(self) -> int:
        """Return how many days after the due day it is paid."""
        return min(int(self.dice.gammavariate(2.0, 3.5)) - 4, 45)

    # Texts -----------------------------------------------------------------------------------------------------

    def reference(self) -> str:
        """Return a reference that no other item has, in one of the ways in which companies number."""
        self._references += self.number(1, 3)
        number, way = self._references, self.number(0, 9)
        if way < 4:
            return f"INV-2026-{number:07d}"
        if way < 6:
            return f"RE{number:08d}"
        if way < 7:
            return f"2026/{number:07d}"
        if way < 8:
            # ISO 11649: the remainder of the text with RF00 behind it.
            return f"RF{98 - int(f'{number}271500') % 97:02d}{number}"
        return f"{4_000_000_000 + number}" if way < 9 else f"ORD-{number * 7919 % 16**6:06X}-{number % 1000:03d}"

    def references_in_a_row(self, count: int) -> list[str]:
        """Return references that no other item has, one number after the other."""
        first = self._references + 1
        self._references += count
        way = self.pick(("INV-2026-{:07d}", "RE{:08d}", "2026/{:07d}", "{}"))
        return [str(way).format(number) for number in range(first, first + count)]

    def common_reference(self) -> str:
        """Return a reference of many items, or none."""
        return str(self.pick(COMMON_REFERENCES)) if self.happens(self.hardness.common_references) else ""

    def quoted(self, reference: str) -> str:
        """Return a remittance text that quotes a reference and little else."""
        return str(self.pick(QUOTES)).format(r=reference)

    def noisy(self, reference: str, payer: Payer) -> str:
        """Return a remittance text that quotes a reference among other numbers."""
        day = FIRST_DAY + timedelta(days=self.due())
        return str(self.pick(NOISES)).format(
            q=self.quoted(reference), k=payer.customer, n=self.number(10_000, 9_999_999), d=f"{day:%d.%m.%Y}"
        )

    # Rows ------------------------------------------------------------------------------------------------------

    def item(
        self,
        payer: Payer,
        *,
        amount: int | None = None,
        currency: str | None = None,
        due: int | None = None,
        reference: str | None = None,
        end_to_end_id: str = "",
        batch_id: str = "",
        payable: bool | None = None,
    ) -> Item:
        """Add an expected transaction; what is not given is drawn. A payable one has a negative amount."""
        currency = currency or payer.currency
        amount = self.amount(payer, currency) if amount is None else amount
        if payable is None:
            payable = self.happens(self.hardness.payables)
        amount = -amount if payable else amount
        due = self.due() if due is None else due
        reference = self.reference() if reference is None else reference
        day = FIRST_DAY + timedelta(days=due)
        opened = self.happens(0.1)
        iban = payer.iban if self.happens(0.9) else ""
        self.tables.expected.append(
            (
                amount,
                currency,
                day,
                day - timedelta(days=10) if opened else None,
                day + timedelta(days=50) if opened else None,
                reference,
                payer.name,
                iban,
                end_to_end_id,
                batch_id,
                f'{{"customer": "{payer.customer}"}}' if self.happens(0.5) else "",
            )
        )
        return Item(len(self.tables.expected) - 1, payer, amount, currency, due, reference)

    def line(
        self,
        amount: int,
        currency: str,
        *,
        day: int,
        remittance: str = "",
        name: str = "",
        iban: str = "",
        end_to_end_id: str | None = None,
        code: str = "",
    ) -> int:
        """Add a line and return its row."""
        booked = FIRST_DAY + timedelta(days=max(day, 0))
        if end_to_end_id is None:
            end_to_end_id = self._own_end_to_end_id()
        value = booked if self.happens(0.8) else booked + timedelta(days=1)
        self.tables.incoming.append((amount, currency, booked, value, remittance, name, iban, end_to_end_id, code))
        return len(self.tables.incoming) - 1

    def _own_end_to_end_id(self) -> str:
        """Return what a payer writes there: mostly nothing, or a number of the payer's own."""
        if self.happens(0.6):
            return _NOT_PROVIDED
        return f"PAY{self.number(1, 10**12)}" if self.happens(0.5) else ""

    def link(self, kind: str, items: Iterable[Item], lines: Iterable[int], payer: Payer) -> None:
        """Say that each of the lines pays each of the items; with one side empty, that nothing belongs to the other."""
        rows: list[int | None] = [item.row for item in items]
        numbers: list[int | None] = list(lines)
        for row in rows or [None]:
            for number in numbers or [None]:
                self.tables.truth.append((row, number, kind, payer.number))

"""The files of a shop's September: invoices, a payment provider's report, and the statements of its bank.

Customers pay by card, the provider pays out what it collected, and members are debited by the bank. What is in it is
what makes a month-end hard: two payouts of one amount on one day, of which the bank names only one; refunds and a
dispute; a payout that failed and was paid out again; one that is on its way over the end of the month; and a collection
of which three debits come back with the fees of their banks. The same arguments give the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

BANK: Final = "DE89370400440532013000"
PROVIDER: Final = "acct_shop"
CUT_OFF: Final = "2026-09-30"
OPENING_MINOR: Final = 1_250_000
PAYER: Final = "Stripe Payments Europe Ltd"
RETURN_FEE_MINOR: Final = 300
DISPUTE_FEE_MINOR: Final = 1_500
FIRST: Final = date(2026, 9, 1)
_NAMES: Final = ("Ada Lovelace", "Grace Hopper", "Alan Turing", "Mary Somerville", "Karl Kaufmann", "Renate Richter")
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"
_COLUMNS: Final = (
    "automatic_payout_id", "balance_transaction_id", "created_utc", "available_on_utc", "currency", "gross", "fee",
    "net", "reporting_category", "source_id", "payment_intent_id", "charge_id", "description", "customer_name",
)  # fmt: skip


@dataclass(kw_only=True)
class Shop:
    """The files, and what has to come of them."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By name: ``invoices.jsonl, stripe.csv, bank.xml, returns.xml``, and ``late.xml``, with a line of the month in it.

    The late line pays the first item of the collection that came back.
    """
    open_minor: dict[str, int] = field(default_factory=dict)
    """What is open at the end of each item that is not settled whole, by ``externalId``."""
    returned: list[str] = field(default_factory=list)
    """Items of the collection whose debits came back."""
    payouts: dict[str, int] = field(default_factory=dict)
    """Net of each payout that arrives."""
    twins: tuple[str, str] = ("", "")
    """Two payouts of one amount and day; the bank names the first of them."""
    failed: str = ""
    crossing: str = ""
    provider_minor: int = 0
    """What the provider has at the cut-off."""
    bank_minor: int = 0


@dataclass(kw_only=True)
class _Charge:
    number: str
    gross: int
    fee: int
    on: date
    name: str
    payout: str
    source: str
    intent: str


def shop(*, seed: int = 11, invoices: int = 200, debits: int = 50) -> Shop:
    """Return the month of a shop with so many invoices, which are paid by card, and debits."""
    return _Month(random.Random(seed), invoices, debits).made()  # noqa: S311 - data, not a secret


class _Month:
    def __init__(self, chance: random.Random, invoices: int, debits: int) -> None:
        self.chance = chance
        self.count = invoices
        self.debits = debits
        self.shop = Shop()
        self.rows: list[dict[str, Any]] = []
        self.items: list[dict[str, Any]] = []

    def made(self) -> Shop:
        payouts = [self._id("po") for _ in range(7)]
        one, other, failed, again, middle, crossing, _later = payouts
        self.shop.twins, self.shop.failed, self.shop.crossing = (one, other), failed, crossing
        # Day of the month on which each is paid out; what is charged in the last days is with the provider still.
        days = {one: 9, other: 9, failed: 14, middle: 23, crossing: 30}
        charges = self._charges(days)
        paid = {name: [c for c in charges if c.payout == name] for name in days}
        self._level(paid[one], paid[other])
        self._invoices(charges)
        for charge in charges:
            self._row(charge.payout, charge.on, charge.gross, charge.fee, "charge", charge.source, charge)
        taken = self._taken_back(paid)
        for name, day in days.items():
            net = sum(c.gross - c.fee for c in paid[name]) - taken.get(name, 0)
            self._row(name, FIRST + timedelta(days=day - 1), -net, 0, "payout", name)
            if name == failed:
                self._row(name, FIRST + timedelta(days=15), net, 0, "payout_reversal", name)
                self._row(again, FIRST + timedelta(days=16), -net, 0, "payout", again)
                name = again  # noqa: PLW2901 - what arrives is the second one
            self.shop.payouts[name] = net
        self._row("", FIRST + timedelta(days=28), -1_000, 0, "fee", self._id("fee"))
        self.shop.provider_minor = sum(row["net"] for row in self.rows)
        self._bank(days | {again: 17})
        self.shop.files["invoices.jsonl"] = "".join(json.dumps(item) + "\n" for item in self.items).encode()
        self.shop.files["stripe.csv"] = _table(self.rows)
        return self.shop

    def _id(self, kind: str) -> str:
        return f"{kind}_1S" + "".join(self.chance.choices(_LETTERS, k=22))

    def _charges(self, days: dict[str, int]) -> list[_Charge]:
        names = [*days, ""]
        made = []
        for number in range(self.count):
            payout = names[number % len(names)]
            last = days.get(payout, 31) - 1
            gross = self.chance.randrange(990, 24_900)
            made.append(
                _Charge(
                    number=f"INV-2026-{number + 1:04}",
                    gross=gross,
                    fee=gross * 15 // 1000 + 25,
                    on=FIRST + timedelta(days=self.chance.randrange(max(0, last - 7), last)),
                    name=self.chance.choice(_NAMES),
                    payout=payout,
                    source=self._id("ch"),
                    intent=self._id("pi"),
                )
            )
        return made

    def _level(self, one: list[_Charge], other: list[_Charge]) -> None:
        """Give the second of the twins what it lacks, so that both come to one amount."""
        lacks = sum(c.gross - c.fee for c in one) - sum(c.gross - c.fee for c in other)
        (other if lacks > 0 else one)[-1].gross += abs(lacks)

    def _invoices(self, charges: Sequence[_Charge]) -> None:
        for charge in charges:
            self._item(
                charge.number,
                charge.gross,
                charge.on + timedelta(days=3),
                reference=charge.number,
                counterpartyName=charge.name,
            )

    def _item(self, number: str, minor: int, due: date, **more: str) -> None:
        self.items.append(
            {
                "externalId": number,
                "direction": "credit",
                "amountMinor": minor,
                "currency": "EUR",
                "dueDate": str(due),
                **more,
            }
        )

    def _row(
        self, payout: str, on: date, gross: int, fee: int, kind: str, source: str, charge: _Charge | None = None
    ) -> None:
        self.rows.append(
            {
                "automatic_payout_id": payout,
                "balance_transaction_id": self._id("txn"),
                "created_utc": f"{on} 09:30:00",
                "available_on_utc": f"{on} 00:00:00",
                "currency": "eur",
                "gross": gross,
                "fee": fee,
                "net": gross - fee,
                "reporting_category": kind,
                "source_id": source,
                "payment_intent_id": charge.intent if charge else "",
                "charge_id": charge.source if charge else "",
                "description": f"Invoice {charge.number}" if charge and kind == "charge" else "",
                "customer_name": charge.name if charge else "",
            }
        )

    def _taken_back(self, paid: dict[str, list[_Charge]]) -> dict[str, int]:
        """Give back three payments, one of them whole, and lose a dispute; return what payouts are less by."""
        names = [self.shop.failed, list(paid)[3], self.shop.crossing]
        taken: dict[str, int] = {}
        for place, name in enumerate(names):
            charge = paid[name][0]
            minor = charge.gross if place == 0 else charge.gross // 3
            self._row(name, charge.on + timedelta(days=1), -minor, 0, "refund", self._id("re"), charge)
            self.shop.open_minor[charge.number] = minor
            taken[name] = taken.get(name, 0) + minor
        charge = paid[names[1]][1]
        self._row(
            names[1], charge.on + timedelta(days=1), -charge.gross, DISPUTE_FEE_MINOR, "dispute", self._id("dp"), charge
        )
        self.shop.open_minor[charge.number] = charge.gross
        taken[names[1]] += charge.gross + DISPUTE_FEE_MINOR
        return taken

    def _bank(self, days: dict[str, int]) -> None:
        """Write what the bank books, and on which of its statements."""
        entries: dict[date, list[tuple[int, str]]] = {}

        def book(on: date, minor: int, more: str) -> None:
            number = sum(len(found) for found in entries.values())
            entries.setdefault(on, []).append((minor, _entry(on, minor, f"20260{on.month}{number:04}", more)))

        for name, net in self.shop.payouts.items():
            on = FIRST + timedelta(days=days[name] + 1)
            text = "STRIPE" if name == self.shop.twins[1] else f"STRIPE PAYOUT {name}"
            book(on, net, _details([_deposit(text)]))
        members = []
        for number in range(1, self.debits + 1):
            minor, member = self.chance.randrange(15, 60) * 100, f"SUB-2026-09-{number:03}"
            members.append((member, minor, self.chance.choice(_NAMES)))
            self._item(member, minor, FIRST + timedelta(days=6), endToEndId=member, counterpartyName=members[-1][2])
        total = sum(minor for _, minor, _ in members)
        book(FIRST + timedelta(days=6), total, _details([_debit(*member) for member in members]))
        back = FIRST + timedelta(days=14)
        for reason, (member, minor, name) in zip(("AM04", "AC04", "MS03"), members[1::3], strict=False):
            self.shop.returned.append(member)
            self.shop.open_minor[member] = minor
            book(back, -minor - RETURN_FEE_MINOR, _details([_returned(member, minor, name, reason)], code="UPDD"))
        book(FIRST + timedelta(days=29), -990, _details([_text("Account fee September")]))
        balance, written = OPENING_MINOR, []
        spans = ((1, 14), (15, 15), (16, 30), (31, 32))
        for number, (first, last) in enumerate(spans, 1):
            days_of = [FIRST + timedelta(days=day - 1) for day in range(first, last + 1)]
            found = [entry for day in days_of for entry in entries.get(day, [])]
            closing = balance + sum(minor for minor, _ in found)
            written.append(_statement(number, days_of[0], days_of[-1], balance, closing, [text for _, text in found]))
            balance = closing
            if str(days_of[-1]) == CUT_OFF:
                self.shop.bank_minor = closing
        self.shop.files["bank.xml"] = _message([written[0], *written[2:]])
        self.shop.files["returns.xml"] = _message([written[1]])
        member, minor, name = members[1]
        paid = _entry(date.fromisoformat(CUT_OFF), minor, "20261000000", _details([_debit(member, minor, name)]))
        on = FIRST + timedelta(days=34)
        self.shop.files["late.xml"] = _message([_statement(5, on, on, balance, balance + minor, [paid])])


def _table(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in sorted(rows, key=lambda row: row["created_utc"]):
        writer.writerow({**row, **{name: f"{row[name] / 100:.2f}" for name in ("gross", "fee", "net")}})
    return text.getvalue().encode()


def _amount(minor: int) -> str:
    return f'<Amt Ccy="EUR">{abs(minor) / 100:.2f}</Amt>'


def _sign(minor: int) -> str:
    return f"<CdtDbtInd>{'CRDT' if minor >= 0 else 'DBIT'}</CdtDbtInd>"


def _entry(on: date, minor: int, reference: str, more: str) -> str:
    day = f"<Dt>{on}</Dt>"
    return (
        f"<Ntry>{_amount(minor)}{_sign(minor)}<Sts><Cd>BOOK</Cd></Sts><BookgDt>{day}</BookgDt><ValDt>{day}</ValDt>"
        f"<AcctSvcrRef>{reference}</AcctSvcrRef>{more}</Ntry>"
    )


def _details(parts: Sequence[str], *, code: str = "") -> str:
    domain = (
        f"<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>IDDT</Cd><SubFmlyCd>{code}</SubFmlyCd></Fmly></Domn></BkTxCd>"
        if code
        else ""
    )
    return f"{domain}<NtryDtls>{''.join(f'<TxDtls>{part}</TxDtls>' for part in parts)}</NtryDtls>"


def _text(text: str) -> str:
    return f"<RmtInf><Ustrd>{text}</Ustrd></RmtInf>"


def _deposit(text: str) -> str:
    return (
        f"<RltdPties><Dbtr><Pty><Nm>{PAYER}</Nm></Pty></Dbtr>"
        f"<DbtrAcct><Id><IBAN>IE29AIBK93115212345678</IBAN></Id></DbtrAcct></RltdPties>{_text(text)}"
    )


def _debit(member: str, minor: int, name: str) -> str:
    return (
        f"<Refs><EndToEndId>{member}</EndToEndId><MndtId>M-{member[-3:]}</MndtId></Refs>{_amount(minor)}{_sign(minor)}"
        f"<RltdPties><Dbtr><Pty><Nm>{name}</Nm></Pty></Dbtr></RltdPties>{_text('Membership September')}"
    )


def _returned(member: str, minor: int, name: str, reason: str) -> str:
    fee = RETURN_FEE_MINOR
    return (
        f"<Refs><EndToEndId>{member}</EndToEndId><MndtId>M-{member[-3:]}</MndtId></Refs>{_amount(-minor - fee)}"
        f"{_sign(-1)}<Chrgs><Rcrd>{_amount(fee)}{_sign(-1)}<ChrgInclInd>true</ChrgInclInd></Rcrd></Chrgs>"
        f"<RltdPties><Cdtr><Pty><Nm>{name}</Nm></Pty></Cdtr></RltdPties>{_text('Returned debit')}"
        f"<RtrInf><Rsn><Cd>{reason}</Cd></Rsn></RtrInf>"
    )


def _statement(number: int, first: date, last: date, opening: int, closing: int, entries: Sequence[str]) -> str:
    balances = "".join(
        f"<Bal><Tp><CdOrPrtry><Cd>{kind}</Cd></CdOrPrtry></Tp>{_amount(minor)}{_sign(minor)}<Dt><Dt>{on}</Dt></Dt></Bal>"
        for kind, minor, on in (("OPBD", opening, first), ("CLBD", closing, last))
    )
    return (
        f"<Stmt><Id>2026-{number:03}</Id><ElctrncSeqNb>{number}</ElctrncSeqNb><CreDtTm>{last}T20:00:00</CreDtTm>"
        f"<FrToDt><FrDtTm>{first}T00:00:00</FrDtTm><ToDtTm>{last}T23:59:59</ToDtTm></FrToDt>"
        f"<Acct><Id><IBAN>{BANK}</IBAN></Id><Ccy>EUR</Ccy></Acct>{balances}{''.join(entries)}</Stmt>"
    )


def _message(statements: Sequence[str]) -> bytes:
    head = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>\n'
    return (head + "\n".join(statements) + "\n</BkToCstmrStmt></Document>\n").encode()

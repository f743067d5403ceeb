"""What is announced during the day, and the statement that books it in the evening: one line, in either order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from support.service import Service, Tenant
from support.stored import clear, content, listed, upload
from support.wire import count

pytestmark = pytest.mark.anyio

IBAN = "DE89370400440532013000"


@dataclass(frozen=True, slots=True)
class Line:
    """An entry, as any of the formats reports it."""

    text: str
    amount_minor: int = 1250
    pending: bool = False
    reference: str | None = None
    code: str = "PMNT"
    """The bank transaction code in camt: what one report says and another does not."""

    @property
    def booked(self) -> Line:
        """The entry in the evening."""
        return replace(self, pending=False)


def camt(kind: str, statement: str, lines: Sequence[Line]) -> bytes:
    message, body = {"052": ("BkToCstmrAcctRpt", "Rpt"), "053": ("BkToCstmrStmt", "Stmt")}[kind]
    entries = "".join(
        f'<Ntry><Amt Ccy="EUR">{line.amount_minor / 100:.2f}</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
        f"<Sts><Cd>{'PDNG' if line.pending else 'BOOK'}</Cd></Sts>"
        "<BookgDt><Dt>2026-03-10</Dt></BookgDt><ValDt><Dt>2026-03-10</Dt></ValDt>"
        f"{f'<AcctSvcrRef>{line.reference}</AcctSvcrRef>' if line.reference else ''}"
        f"<BkTxCd><Prtry><Cd>{line.code}</Cd></Prtry></BkTxCd>"
        f"<NtryDtls><TxDtls><RmtInf><Ustrd>{line.text}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"
        for line in lines
    )
    return (
        f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.{kind}.001.08"><{message}><{body}><Id>{statement}</Id>'
        f"<Acct><Id><IBAN>{IBAN}</IBAN></Id><Ccy>EUR</Ccy></Acct>{entries}</{body}></{message}></Document>"
    ).encode()


def camt_052(lines: Sequence[Line], statement: str = "R1") -> bytes:
    """Return an intraday report."""
    return camt("052", statement, lines)


def camt_053(lines: Sequence[Line], statement: str = "S1") -> bytes:
    """Return the statement of the day."""
    return camt("053", statement, lines)


def mt940(lines: Sequence[Line], statement: str = "1/1", head: str = ":60F:C260309EUR100,00") -> bytes:
    """Return the statement of the day."""
    entries = (
        f":61:2603100310{'EC' if line.pending else 'C'}{line.amount_minor // 100},{line.amount_minor % 100:02}NTRF"
        f"NONREF{f'//{line.reference}' if line.reference else ''}\n:86:{line.text}"
        for line in lines
    )
    return "\n".join((":20:X", f":25:{IBAN}", f":28C:{statement}", head, *entries, "-", "")).encode()


def mt942(lines: Sequence[Line], statement: str = "1/1") -> bytes:
    """Return an intraday report."""
    return mt940(lines, statement, ":34F:EURD0,\n:13D:2603101200+0100")


Writer = Callable[..., bytes]
FORMATS = pytest.mark.parametrize(
    ("intraday", "evening"), [(camt_052, camt_053), (mt942, mt940)], ids=["camt", "mt94x"]
)
REFERENCES = pytest.mark.parametrize("reference", [None, "B1"], ids=["by content", "by reference"])


@pytest.fixture(scope="module")
async def tenants(service: Service) -> tuple[Tenant, Tenant]:
    """A tenant that everything is uploaded to, and one that nothing is."""
    first, second = [await service.tenant(f"intraday-{at}", environments=["production"]) for at in "ab"]
    return first, second


@pytest.fixture
async def tenant(service: Service, tenants: tuple[Tenant, Tenant]) -> Tenant:
    """The first of them, without rows."""
    await clear(service, tenants[0])
    return tenants[0]


async def statuses(tenant: Tenant) -> list[tuple[int, str, str | None]]:
    return [(row["amountMinor"], row["status"], row["reasonCode"]) for row in await listed(tenant)]


@FORMATS
@REFERENCES
async def test_the_pending_line_becomes_the_booked_one_in_any_order(
    service: Service,
    tenants: tuple[Tenant, Tenant],
    tenant: Tenant,
    intraday: Writer,
    evening: Writer,
    reference: str | None,
) -> None:
    one, other = Line("Invoice 7", pending=True, reference=reference), Line("Fee", 300, reference=reference and "B2")
    noon, afternoon = intraday([one]), intraday([one, other], "2/1")
    statement = evening([one.booked, other])
    await upload(tenant, statement)
    expected = await content(service, tenant)
    assert expected.total() == 2
    for files in itertools.permutations((noon, afternoon, statement)):
        await clear(service, tenant)
        for data in files:
            await upload(tenant, data)
        assert await content(service, tenant) == expected, [files.index(f) for f in (noon, afternoon, statement)]
        assert await statuses(tenant) == [(300, "unmatched", None), (1250, "unmatched", None)]
    assert await count(service, tenants[1], "incoming_transaction") == 0


@FORMATS
async def test_what_is_never_booked_stays_pending(tenant: Tenant, intraday: Writer, evening: Writer) -> None:
    announced, other = Line("Invoice 7", pending=True), Line("Invoice 8", 900, pending=True)
    await upload(tenant, intraday([announced, other]))
    await upload(tenant, evening([other.booked]))
    await upload(tenant, intraday([announced, other], "2/1"))
    assert await statuses(tenant) == [(900, "unmatched", None), (1250, "pending", None)]


@FORMATS
async def test_twins_are_as_many_as_the_fullest_report_has(
    service: Service, tenant: Tenant, intraday: Writer, evening: Writer
) -> None:
    twin = Line("Ticket", pending=True)
    reports = [intraday([twin]), intraday([twin.booked, twin], "2/1"), evening([twin.booked, twin.booked])]
    await upload(tenant, reports[-1])
    expected = await content(service, tenant)
    for files in itertools.permutations(reports):
        await clear(service, tenant)
        for data in (*files, *files):
            await upload(tenant, data)
        # Neither is a duplicate of the other: one statement has both.
        assert await statuses(tenant) == [(1250, "unmatched", None)] * 2
        assert await content(service, tenant) == expected


async def test_a_booking_brings_all_that_it_says(service: Service, tenant: Tenant) -> None:
    announced = Line("Invoice", 1200, pending=True, reference="B1")
    booked = Line("Invoice 7", 1250, reference="B1", code="RCDT")
    await upload(tenant, camt_053([booked]))
    expected = await content(service, tenant)
    for files in itertools.permutations((camt_052([announced]), camt_053([booked]))):
        await clear(service, tenant)
        for data in files:
            await upload(tenant, data)
        assert await content(service, tenant) == expected


async def test_a_line_of_nothing_is_booked_too(service: Service, tenant: Tenant) -> None:
    line = Line("Account closed", 0, pending=True)
    await upload(tenant, camt_053([line.booked]))
    expected = await content(service, tenant)
    for files in itertools.permutations((camt_052([line]), camt_053([line.booked]))):
        await clear(service, tenant)
        for data in files:
            await upload(tenant, data)
        assert await content(service, tenant) == expected


async def test_an_announcement_of_nothing_never_hides_what_is_booked(tenant: Tenant) -> None:
    announced, booked = Line("Invoice 7", 0, pending=True, reference="B1"), Line("Invoice 7", reference="B1")
    for data in (camt_052([announced]), camt_053([booked]), camt_052([announced], "R2")):
        await upload(tenant, data)
    assert ("unmatched", 1250) in [(row["status"], row["openAmountMinor"]) for row in await listed(tenant)]

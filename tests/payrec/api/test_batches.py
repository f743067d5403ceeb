"""A batch that one report shows as one line and another by its details: one payment, whichever came first."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.service import Service, Tenant
from support.stored import clear, listed, upload

pytestmark = pytest.mark.anyio

IBAN = "CH9300762011623852957"
MESSAGES = {
    "052": ("BkToCstmrAcctRpt", "Rpt"),
    "053": ("BkToCstmrStmt", "Stmt"),
    "054": ("BkToCstmrDbtCdtNtfctn", "Ntfctn"),
}


def camt(
    kind: str, details: Sequence[str] = (), *, total: str = "100.00", reference: str = "B1", on: str = "2026-03-10",
    status: str = "BOOK", account: str = IBAN, count: int = 2,
) -> bytes:  # fmt: skip
    """Return a report of one collective booking, by its details where there are any."""
    message, body = MESSAGES[kind]
    found = "".join(
        f"<TxDtls><Refs><AcctSvcrRef>{reference}-{at}</AcctSvcrRef></Refs>"
        f'<Amt Ccy="CHF">{detail}</Amt><CdtDbtInd>CRDT</CdtDbtInd></TxDtls>'
        for at, detail in enumerate(details)
    )
    return (
        f'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.{kind}.001.08"><{message}><{body}><Id>{kind}</Id>'
        f'<Acct><Id><IBAN>{account}</IBAN></Id><Ccy>CHF</Ccy></Acct><Ntry><Amt Ccy="CHF">{total}</Amt>'
        f"<CdtDbtInd>CRDT</CdtDbtInd><Sts><Cd>{status}</Cd></Sts><BookgDt><Dt>{on}</Dt></BookgDt>"
        f"<AcctSvcrRef>{reference}</AcctSvcrRef><NtryDtls><Btch><NbOfTxs>{count}</NbOfTxs></Btch>{found}</NtryDtls></Ntry>"
        f"</{body}></{message}></Document>"
    ).encode()


WHOLE = camt("053")
DETAILS = camt("054", ["60.00", "40.00"])


@pytest.fixture(scope="module")
async def tenants(service: Service) -> tuple[Tenant, Tenant]:
    """A tenant that everything is uploaded to, and one that nothing is."""
    first, second = [await service.tenant(f"batches-{at}", environments=["production"]) for at in "ab"]
    return first, second


@pytest.fixture
async def tenant(service: Service, tenants: tuple[Tenant, Tenant]) -> Tenant:
    """The first of them, without rows."""
    await clear(service, tenants[0])
    return tenants[0]


async def reasons(tenant: Tenant) -> list[tuple[int, str | None]]:
    return [(row["amountMinor"], row["reasonCode"]) for row in await listed(tenant)]


@pytest.mark.parametrize("again", [[], [camt("052"), camt("052", ["60.00", "40.00"])]], ids=["once", "again"])
@pytest.mark.parametrize("files", [[WHOLE, DETAILS], [DETAILS, WHOLE]], ids=["line first", "details first"])
async def test_the_line_is_the_duplicate_of_its_details_in_any_order(
    tenants: tuple[Tenant, Tenant], tenant: Tenant, files: Sequence[bytes], again: Sequence[bytes]
) -> None:
    for file in [*files, *again]:
        await upload(tenant, file)
    assert await reasons(tenant) == [(4000, None), (6000, None), (10000, "duplicate")]
    assert await listed(tenants[1]) == []


async def test_a_batch_of_one_payment_is_one_too(tenant: Tenant) -> None:
    for file in (camt("053", count=1), camt("054", ["100.00"], count=1)):
        await upload(tenant, file)
    assert sorted(reason or "" for _, reason in await reasons(tenant)) == ["", "duplicate"]
    (line,) = [row for row in await listed(tenant) if row["reasonCode"] is None]
    assert (line["bankReference"], line["batch"]) == ("B1-0", {"groupKey": "B1", "count": 1, "itemised": True})


@pytest.mark.parametrize(
    "whole",
    [
        camt("053", total="100.01"),
        camt("053", reference="B2"),
        camt("053", on="2026-03-11"),
        camt("053", account="CH5604835012345678009"),
    ],
    ids=["another amount", "another id", "another day", "another account"],
)
async def test_what_is_not_the_same_batch_is_no_duplicate(tenant: Tenant, whole: bytes) -> None:
    for file in (whole, DETAILS):
        await upload(tenant, file)
    assert [reason for _, reason in await reasons(tenant)] == [None] * 3


async def test_announced_details_take_nothing_from_a_booked_line(tenant: Tenant) -> None:
    announced = camt("052", ["60.00", "40.00"], status="PDNG")
    for file in (announced, WHOLE):
        await upload(tenant, file)
    assert "duplicate" not in dict(await reasons(tenant)).values()
    await upload(tenant, DETAILS)
    assert await reasons(tenant) == [(4000, None), (6000, None), (10000, "duplicate")]


async def test_details_of_a_line_that_has_paid_are_the_duplicates(tenant: Tenant) -> None:
    await upload(tenant, WHOLE)
    (line,) = await listed(tenant)
    item = {"direction": "credit", "amount": "100.00", "currency": "CHF"}
    expected = (await tenant.post("/expected-transactions", item)).json()
    leg = {"expectedTransactionId": expected["id"], "incomingTransactionId": line["id"], "amountMinor": 10000}
    matched = await tenant.post("/matches", {"legs": [leg], "reason": "collected"})
    assert matched.status_code == 201, matched.text
    await upload(tenant, DETAILS)
    assert await reasons(tenant) == [(4000, "duplicate"), (6000, "duplicate"), (10000, None)]


async def test_somebody_says_that_the_line_is_a_payment_of_its_own(tenant: Tenant) -> None:
    for file in (WHOLE, DETAILS):
        await upload(tenant, file)
    line = (await listed(tenant))[-1]
    restored = await tenant.post(f"/incoming-transactions/{line['id']}/restore")
    assert restored.status_code == 200, restored.text
    await upload(tenant, camt("052", ["60.00", "40.00"]))
    assert await reasons(tenant) == [(4000, None), (6000, None), (10000, None)]

"""Ids that a bank uses again: another payment is never taken for a duplicate because it has a known id."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any

import pytest

from payrec.services import ingestion
from payrec.services.ingestion import PIECE_ROWS
from support.service import Service, Tenant
from support.stored import clear, upload

pytestmark = pytest.mark.anyio

PATH = "/incoming-transactions/upload"


def ofx(*entries: tuple[str, str, str], account: str = "4711") -> bytes:
    """Return a statement of entries of day, amount and id."""
    told = "".join(
        f"<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>{day}<TRNAMT>{amount}<FITID>{fitid}<NAME>Bolt</STMTTRN>"
        for day, amount, fitid in entries
    )
    return (
        "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\n\n<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS><CURDEF>EUR"
        f"<BANKACCTFROM><BANKID>1<ACCTID>{account}<ACCTTYPE>CHECKING</BANKACCTFROM>"
        f"<BANKTRANLIST>{told}</BANKTRANLIST></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>"
    ).encode()


async def imported(tenant: Tenant, content: bytes) -> tuple[int, int, list[str]]:
    """Return how many were accepted and duplicates, and what was told."""
    answer = await tenant.post(PATH, headers={"Content-Type": "application/octet-stream"}, content=content)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    told = (await tenant.get(body["errorsUrl"])).json()["data"]
    return body["counts"]["accepted"], body["counts"]["duplicates"], [error["code"] for error in told]


async def amounts(tenant: Tenant) -> list[int]:
    rows: list[dict[str, Any]] = (await tenant.get("/incoming-transactions", params={"limit": 200})).json()["data"]
    return sorted(row["amountMinor"] for row in rows)


@pytest.fixture
async def tenants(service: Service, request: pytest.FixtureRequest) -> tuple[Tenant, Tenant]:
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:20]
    first, second = [await service.tenant(f"r{name}{at}", environments=["production"]) for at in "ab"]
    return first, second


async def test_another_amount_under_a_known_id_is_another_payment(tenants: tuple[Tenant, Tenant]) -> None:
    first, second = tenants
    assert await imported(first, ofx(("20260310", "100.00", "A1"), ("20260310", "7.00", "A2"))) == (2, 0, [])
    later = ofx(("20260310", "7.00", "A2"), ("20260410", "250.00", "A1"))
    assert await imported(first, later) == (1, 1, ["identity_reused"])
    assert await amounts(first) == [700, 10_000, 25_000]
    # The other tenant has no A1, so there it is the first of its id.
    assert await imported(second, later) == (2, 0, [])


async def test_uploading_it_again_adds_nothing(tenants: tuple[Tenant, Tenant]) -> None:
    first, _ = tenants
    await imported(first, ofx(("20260310", "100.00", "A1")))
    await imported(first, ofx(("20260410", "250.00", "A1")))
    for content in (ofx(("20260410", "250.00", "A1"), ("20260411", "1.00", "A3")), ofx(("20260310", "100.00", "A1"))):
        await imported(first, content + b"\n")
    assert await amounts(first) == [100, 10_000, 25_000]


async def test_an_external_id_that_is_used_again_is_told_and_nothing_is_lost(tenants: tuple[Tenant, Tenant]) -> None:
    first, _ = tenants
    entry = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-10", "externalId": "X1"}
    assert (await first.post(PATH, [{**entry, "amount": "5.00"}])).status_code == 201
    answer = await first.post(PATH, [{**entry, "amount": "6.00"}, {**entry, "amount": "5.00"}])
    assert answer.json()["counts"]["accepted"] == 1, json.dumps(answer.json())
    assert await amounts(first) == [500, 600]


async def test_a_booked_line_brings_its_own_amount(tenants: tuple[Tenant, Tenant]) -> None:
    first, _ = tenants
    entry = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-10", "externalId": "X1"}
    await first.post(PATH, [{**entry, "amount": "100.00", "status": "pending"}])
    answer = await first.post(PATH, [{**entry, "amount": "95.00"}])
    assert answer.json()["counts"]["accepted"] == 1
    [row] = (await first.get("/incoming-transactions")).json()["data"]
    assert (row["status"], row["amountMinor"], row["openAmountMinor"]) == ("unmatched", 9_500, 9_500)
    # The announcement once more, after the booking, is not another payment.
    again = await first.post(PATH, [{**entry, "amount": "100.00", "status": "pending", "remittance": "again"}])
    assert (again.json()["counts"]["accepted"], again.json()["counts"]["duplicates"]) == (0, 1)
    assert await amounts(first) == [9_500]


def camt(*entries: tuple[str, str]) -> bytes:
    """Return a statement of entries of amount and the bank's reference, all of one day."""
    told = "".join(
        f'<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>CRDT</CdtDbtInd><BookgDt><Dt>2026-03-10</Dt></BookgDt>'
        f"<AcctSvcrRef>{reference}</AcctSvcrRef></Ntry>"
        for amount, reference in entries
    )
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt><Id>S</Id><Acct>'
        f"<Id><Othr><Id>4711</Id></Othr></Id><Ccy>EUR</Ccy></Acct>{told}</Stmt></BkToCstmrStmt></Document>"
    ).encode()


@pytest.mark.parametrize("piece", [1, PIECE_ROWS])
async def test_an_id_that_is_used_twice_in_one_statement_is_the_same_two_wherever_it_is_cut(
    service: Service, tenants: tuple[Tenant, Tenant], monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(ingestion, "PIECE_ROWS", piece)
    for make in (
        lambda *amounts: camt(*((amount, "A1") for amount in amounts)),
        lambda *amounts: ofx(*(("20260310", amount, "A1") for amount in amounts)),
    ):
        whole, first, second = make("1.00", "2.00"), make("1.00"), make("2.00")
        for files in itertools.permutations((whole, first, second)):
            await clear(service, tenants[0])
            for content in (*files, *files[::-1]):
                await upload(tenants[0], content)
            assert await amounts(tenants[0]) == [100, 200]
            assert await amounts(tenants[1]) == []

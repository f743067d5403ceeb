"""Pages of a statement: in however many files they come, every line is there as often as the pages show it."""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from payrec.services import ingestion
from support.service import Service, Tenant
from support.stored import PATH, clear, content, listed, upload
from support.wire import count, rows

pytestmark = pytest.mark.anyio

PREVIEW = f"{PATH}/preview"


NUMBER = "<ElctrncSeqNb>7</ElctrncSeqNb>"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page: the amounts of its lines, of which equal ones are equal altogether, and its place in its statement."""

    amounts: tuple[int, ...]
    number: int
    opening: int
    is_last: bool

    def mt940(self, number: str = "7") -> str:
        """Return it as a message whose intermediate balances say that it is a page; ``number`` 0 is no number."""
        marks = ("60F" if self.number == 1 else "60M", "62F" if self.is_last else "62M")
        return mt940(
            *self.amounts, head=f"{number}/{self.number if int(number) else 1}", opening=self.opening, marks=marks
        )

    def camt(self, reference: str | None = None, *, numbered: bool = True) -> str:
        """Return it as a statement; ``reference`` is the bank's id of all lines of one amount.

        Without the number of its statement, each page has an id of its own.
        """
        paging = f"<PgNb>{self.number}</PgNb><LastPgInd>{str(self.is_last).lower()}</LastPgInd>"
        found = camt(*self.amounts, head=f"<StmtPgntn>{paging}</StmtPgntn>", reference=reference)
        return found if numbered else found.replace(NUMBER, "").replace("<Id>S</Id>", f"<Id>S{self.number}</Id>", 1)


def mt940(*amounts: int, head: str, opening: int, marks: tuple[str, str] = ("60F", "62F")) -> str:
    """Return a message of credits."""
    lines = "".join(f":61:2603100310C{amount},NTRFNONREF\r\n:86:R{amount}\r\n" for amount in amounts)
    balances = [
        f":{mark}:C260310EUR{minor}," for mark, minor in zip(marks, (opening, opening + sum(amounts)), strict=True)
    ]
    return f":20:X\r\n:25:10020030/1234567\r\n:28C:{head}\r\n{balances[0]}\r\n{lines}{balances[1]}\r\n-\r\n"


def camt(*amounts: int, head: str = "", reference: str | None = None) -> str:
    """Return a statement of credits, without what is around it."""
    entries = "".join(
        f'<Ntry><Amt Ccy="EUR">{amount}.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><BookgDt><Dt>2026-03-10</Dt></BookgDt>'
        "<ValDt><Dt>2026-03-10</Dt></ValDt>"
        + (f"<AcctSvcrRef>{reference}{amount}</AcctSvcrRef>" if reference else "")
        + f"<AddtlNtryInf>R{amount}</AddtlNtryInf></Ntry>"
        for amount in amounts
    )
    account = "<Acct><Id><Othr><Id>10020030/1234567</Id></Othr></Id><Ccy>EUR</Ccy></Acct>"
    return f"<Stmt><Id>S</Id>{head}{NUMBER}{account}{entries}</Stmt>"


def document(statements: Sequence[str]) -> str:
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
        f"{''.join(statements)}</BkToCstmrStmt></Document>"
    )


WAYS = {
    "mt940": lambda sheets: "".join(sheet.mt940() for sheet in sheets),
    "mt940-unnumbered": lambda sheets: "".join(sheet.mt940("0") for sheet in sheets),
    "mt940-one-number": lambda sheets: "".join(
        sheet.mt940().replace(f":28C:7/{sheet.number}", ":28C:7/1") for sheet in sheets
    ),
    "camt": lambda sheets: document([sheet.camt() for sheet in sheets]),
    "camt-ids": lambda sheets: document([sheet.camt("B") for sheet in sheets]),
}
"""How pages are written into one file."""


def sheets_of(pages: Sequence[Sequence[int]]) -> list[Sheet]:
    """Return pages in their order, each with lines of these amounts."""
    openings = [100 + sum(map(sum, pages[:at])) for at in range(len(pages))]
    return [
        Sheet(tuple(amounts), at + 1, opening, at + 1 == len(pages))
        for at, (amounts, opening) in enumerate(zip(pages, openings, strict=True))
    ]


PAGES = st.lists(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=3), min_size=2, max_size=4).map(sheets_of)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[str, list[list[Sheet]]]:
    """Draw files with pages in any order, each of them in any number of files, also twice in one."""
    sheets = draw(PAGES)
    files = draw(st.lists(st.lists(st.sampled_from(sheets), min_size=1, max_size=5), max_size=4))
    missing = draw(st.permutations([s for s in sheets if not any(s in file for file in files)]))
    files += [[sheet] for sheet in missing]
    return draw(st.sampled_from(sorted(WAYS))), draw(st.permutations(files))


@pytest.fixture(scope="module")
async def tenants(service: Service) -> tuple[Tenant, Tenant]:
    first, second = [await service.tenant(f"pages-{at}", environments=["production"]) for at in "ab"]
    return first, second


@pytest.fixture
async def tenant(service: Service, tenants: tuple[Tenant, Tenant]) -> Tenant:
    await clear(service, tenants[0])
    return tenants[0]


def written(way: str, files: Sequence[Sequence[Sheet]]) -> list[bytes]:
    """Return files that differ in their bytes at least."""
    return [(WAYS[way](file) + "\n" * at).encode() for at, file in enumerate(files)]


async def stored(service: Service, tenant: Tenant) -> Counter[int]:
    """Return how many lines of each amount there are, in whole euros."""
    found = await rows(service, tenant, "SELECT amount_minor FROM incoming_transaction")
    return Counter(row["amount_minor"] // 100 for row in found)


def shown(files: Sequence[Sequence[Sheet]]) -> Counter[int]:
    """Return the same of the pages in files, each counted once."""
    return sum((Counter(sheet.amounts) for sheet in {sheet for file in files for sheet in file}), Counter[int]())


@given(drawn=deliveries(), piece=st.sampled_from([1, 2, ingestion.PIECE_ROWS]), at_once=st.booleans())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_every_line_is_there_as_often_as_the_pages_show_it(
    service: Service,
    tenants: tuple[Tenant, Tenant],
    monkeypatch: pytest.MonkeyPatch,
    drawn: tuple[str, list[list[Sheet]]],
    piece: int,
    at_once: bool,  # noqa: FBT001 - drawn
) -> None:
    monkeypatch.setattr(ingestion, "PIECE_ROWS", piece)
    way, files = drawn
    await clear(service, tenants[0])
    if at_once:
        answers = await asyncio.gather(*(tenants[0].post(PATH, files={"file": ("x", d)}) for d in written(way, files)))
        assert {answer.status_code for answer in answers} == {201}
    else:
        for data in written(way, files):
            await upload(tenants[0], data)
    assert await stored(service, tenants[0]) == shown(files)
    assert await count(service, tenants[0], "incoming_open") == shown(files).total()
    for data in written(way, files[::-1]):
        await upload(tenants[0], data + b"\n" * len(files))
    assert await stored(service, tenants[0]) == shown(files)
    assert await count(service, tenants[1], "incoming_transaction") == 0


@given(drawn=deliveries())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
async def test_a_preview_tells_of_pages_what_an_upload_does(
    service: Service, tenants: tuple[Tenant, Tenant], drawn: tuple[str, list[list[Sheet]]]
) -> None:
    way, files = drawn
    for data in written(way, files):
        await clear(service, tenants[0])
        told = await tenants[0].post(PREVIEW, files={"file": ("x", data)})
        assert told.json()["counts"]["duplicates"] == (await upload(tenants[0], data))["counts"]["duplicates"]


@pytest.mark.parametrize("whole_first", [True, False])
@pytest.mark.parametrize("whole", ["mt940", "camt"])
async def test_lines_that_came_otherwise_are_known_again_on_their_pages(
    service: Service,
    tenant: Tenant,
    whole: str,
    whole_first: bool,  # noqa: FBT001 - a table
) -> None:
    sheets = sheets_of([[1, 1, 2], [1, 3], [1]])
    amounts = [1, 1, 2, 1]
    # Of another statement, without pages, with some of the lines.
    other = mt940(*amounts, head="99/1", opening=100) if whole == "mt940" else document([camt(*amounts)])
    pages = written("mt940", [[sheets[2]], [sheets[0]], [sheets[1]]])
    for data in [other.encode(), *pages] if whole_first else [*pages, other.encode()]:
        await upload(tenant, data)
    assert await stored(service, tenant) == {1: 4, 2: 1, 3: 1}
    await upload(tenant, written("mt940", [sheets])[0])
    assert await stored(service, tenant) == {1: 4, 2: 1, 3: 1}


async def test_announced_lines_are_booked_by_those_of_each_page(tenant: Tenant) -> None:
    booked = document([camt(1, 1, 2)])
    announced = booked.replace("</CdtDbtInd>", "</CdtDbtInd><Sts><Cd>PDNG</Cd></Sts>")
    await upload(tenant, announced.encode())
    assert {row["status"] for row in await listed(tenant)} == {"pending"}
    for data in written("camt", [[sheet] for sheet in sheets_of([[1], [1, 2]])[::-1]]):
        await upload(tenant, data)
    assert [row["status"] for row in await listed(tenant)] == ["unmatched"] * 3


async def test_pages_of_another_statement_are_no_pages_of_this_one(service: Service, tenant: Tenant) -> None:
    first, second = sheets_of([[1], [1]])
    for data in (first.mt940("7"), second.mt940("8"), second.mt940("8")):
        await upload(tenant, data.encode())
    # Nothing tells a line of another statement from the same line once more.
    assert await stored(service, tenant) == {1: 1}


@pytest.mark.parametrize("reference", [None, "B"])
async def test_pages_with_ids_of_their_own_are_one_statement_in_one_file(
    service: Service, tenant: Tenant, reference: str | None
) -> None:
    sheets = sheets_of([[1, 1], [1, 2], [1]])
    whole = document([sheet.camt(reference, numbered=False) for sheet in sheets])
    told = await tenant.post(PREVIEW, files={"file": ("x", whole.encode())})
    assert told.json()["counts"]["duplicates"] == 0
    for data in (whole, whole + "\n", document([sheets[1].camt(reference, numbered=False)])):
        await upload(tenant, data.encode())
        assert await stored(service, tenant) == {1: 4, 2: 1}


async def test_what_goes_on_from_no_page_of_its_account_is_another_statement(service: Service, tenant: Tenant) -> None:
    pages = [sheet.camt(numbered=False) for sheet in sheets_of([[1], [1], [1]])]
    elsewhere = pages[1].replace("10020030/1234567", "10020030/7654321")
    ended = pages[0].replace("<LastPgInd>false", "<LastPgInd>true")
    for statements in ([pages[0], elsewhere, pages[2]], [ended, pages[1]], [pages[0], pages[2]]):
        await clear(service, tenant)
        await upload(tenant, document(statements).encode())
        # Nothing tells a line of another statement from the same line once more.
        accounts = 2 if elsewhere in statements else 1
        assert await stored(service, tenant) == {1: accounts}


async def test_final_balances_make_no_page(service: Service, tenant: Tenant) -> None:
    for number in (1, 2):
        await upload(tenant, mt940(1, head=f"1/{number}", opening=100).encode())
    assert await stored(service, tenant) == {1: 1}


@pytest.mark.parametrize("piece", [1_000, ingestion.PIECE_ROWS])
async def test_a_first_page_of_many_pieces_is_found_to_be_one_at_its_end(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(ingestion, "PIECE_ROWS", piece)
    sheets = sheets_of([[1, 2] * 1_500, [1, 2] * 100])
    for data in written("mt940", [[sheets[1]], [sheets[0]], sheets]):
        await upload(tenant, data)
    assert await stored(service, tenant) == {1: 1_600, 2: 1_600}


async def test_what_pages_show_is_the_same_whatever_came_first(service: Service, tenant: Tenant) -> None:
    sheets = sheets_of([[1, 1], [1, 2], [2]])
    found: list[Any] = []
    for files in ([sheets], [[sheet] for sheet in sheets], [[sheet] for sheet in sheets[::-1]]):
        await clear(service, tenant)
        for data in written("mt940", files):
            await upload(tenant, data)
        found.append(await content(service, tenant))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("way", ["mt940", "camt-ids"])
async def test_lines_stored_by_an_earlier_release_are_known(service: Service, tenant: Tenant, way: str) -> None:
    sheets = sheets_of([[1, 1], [1, 2]])
    await upload(tenant, written(way, [sheets])[0])
    before = await stored(service, tenant)
    # Such a release counted on over the pages of one file, and kept nothing else of them.
    await rows(service, tenant, "DELETE FROM page_line")
    for files in ([sheets[::-1]], [[sheets[1]], [sheets[0]]], [sheets]):
        for data in written(way, files):
            await upload(tenant, data + b"\n" * 9)
    assert await stored(service, tenant) == before == {1: 3, 2: 1}


LINES = "SELECT encode(line, 'hex') AS line, page, opening_minor, number FROM page_line ORDER BY line, number"


async def test_an_upgrade_tells_which_page_each_stored_line_is_of(service: Service, tenant: Tenant) -> None:
    upgrade = importlib.import_module("payrec.migrations.tenant.versions.0026_page_lines").LINES
    sheets = sheets_of([[1, 1, 2], [1, 3], [2]])
    for data in (*written("mt940", [sheets]), *written("camt", [sheets])):
        await upload(tenant, data)
    kept = await rows(service, tenant, LINES)
    await rows(service, tenant, "DELETE FROM page_line")
    await rows(service, tenant, upgrade)
    # By the same rule as today; the lines of the second file were stored with the first.
    of_first = await rows(service, tenant, LINES)
    assert of_first
    assert [row for row in kept if row in of_first] == of_first
    # A page of which another one comes after the upgrade.
    await clear(service, tenant)
    await upload(tenant, sheets[1].mt940().encode())
    await rows(service, tenant, "DELETE FROM page_line")
    await rows(service, tenant, upgrade)
    await upload(tenant, sheets[0].mt940().encode())
    assert await stored(service, tenant) == {1: 3, 2: 1, 3: 1}


async def test_an_upgrade_says_nothing_of_lines_that_pages_have_not_counted_without_a_gap(
    service: Service, tenant: Tenant
) -> None:
    upgrade = importlib.import_module("payrec.migrations.tenant.versions.0026_page_lines").LINES
    first, second = sheets_of([[1], [1]])
    await upload(tenant, mt940(1, head="99/1", opening=100).encode())
    await upload(tenant, (first.mt940() + second.mt940()).encode())
    await rows(service, tenant, "DELETE FROM page_line")
    await rows(service, tenant, upgrade)
    for data in (second, first, second):
        await upload(tenant, (data.mt940() + "\n").encode())
    assert await stored(service, tenant) == {1: 2}

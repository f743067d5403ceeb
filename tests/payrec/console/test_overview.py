"""The overview over HTTP: each figure as the reports have it, and nothing of another tenant."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from payrec.console.charts import LENGTH, ageing_chart, reasons_chart, weekly_chart
from payrec.models.reports import AgeingLine, ExceptionLine
from payrec.services.match_rates import WeeklyRate
from payrec.services.report_summaries import figure
from support.browser import ConsoleWorld
from support.statements import camt, message

pytestmark = pytest.mark.anyio
RAW = {"Content-Type": "application/octet-stream"}
HOSTILE = "<script>alert(1)</script>\u202egpj."


def text_of(html: str) -> str:
    """Return what a page says, without its marks."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).replace("\xa0", " ").split())


async def expect(world: ConsoleWorld, amount: str, reference: str, due: date) -> None:
    item = {"amount": amount, "currency": "EUR", "direction": "credit", "reference": reference}
    answer = await world.rest("POST", "/expected-transactions", json={**item, "dueDate": str(due)})
    assert answer.status_code == 201, answer.text


async def receive(world: ConsoleWorld, amount: str, text: str, on: date) -> None:
    line = {"amount": amount, "currency": "EUR", "direction": "credit", "remittance": text}
    answer = await world.rest("POST", "/incoming-transactions", json={**line, "bookingDate": str(on), "account": "A"})
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
async def books(console_world: ConsoleWorld) -> ConsoleWorld:
    """Acme has items of every age, lines of two weeks, and a statement that does not add up."""
    today = date.today()  # noqa: DTZ011 - the service's own clock, in UTC as the machine's
    for days, amount in ((-5, "10.00"), (10, "20.00"), (45, "40.00"), (70, "80.00"), (200, "1234.50")):
        await expect(console_world, amount, f"R-{days}", today - timedelta(days=days))
    await expect(console_world, "77.70", "INV-4711", today)
    await receive(console_world, "77.70", "INV-4711", today)
    await receive(console_world, "5.55", HOSTILE, today - timedelta(days=7))
    broken = camt(0, 1000, 0).replace(
        "10.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>", "9.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>"
    )
    answer = await console_world.rest("POST", "/incoming-transactions/upload", content=message(broken), headers=RAW)
    assert answer.status_code == 201, answer.text
    run = await console_world.rest("POST", "/matches/match", json={"wait": 60})
    assert run.json()["status"] == "succeeded", run.text
    found = (await console_world.rest("GET", "/matches", params={"status": "proposed"})).json()["data"]
    if found:
        ids = {"ids": [match["id"] for match in found]}
        assert (await console_world.rest("POST", "/matches/accept", json=ids)).status_code == 200
    return console_world


async def test_the_figures_are_those_of_the_reports(books: ConsoleWorld) -> None:
    async with books.client() as client:
        told = text_of((await client.get("/console/production/overview/figures")).text)
        whole = text_of((await client.get("/console/production/overview?whole=yes")).text)
    assert "Over 90 days 1,234.50 1" in told
    assert "Not due yet 10.00 1" in told
    assert "61 to 90 days 80.00 1" in told
    assert "5 items open, 1,384.50 EUR" in told
    ageing = (await books.rest("GET", "/reports/ageing")).json()["data"]
    assert [line["open"]["amountMinor"] for line in ageing] == [138_450]
    # Of the week of the day, the one line is matched; of the week before, the one line is not.
    assert re.search(r"1 1 100\.0 % .*? 1 0 0\.0 %", told) is not None, told
    assert "Nothing on the other side resembles it" in told
    assert "Over 90 days 1,234.50 1" in whole


async def test_imports_tell_whether_their_balances_agree(books: ConsoleWorld) -> None:
    async with books.client() as client:
        told = text_of((await client.get("/console/production/overview")).text)
        listed = text_of((await client.get("/console/production/imports")).text)
    # The same words as on the page of the imports.
    assert "completed 1 of 1 do not add up" in told
    assert "completed camt.053 1 0 0 do not add up" in listed
    assert "No job is under way" in told
    assert "Matching Done" in told


async def test_nothing_of_another_tenant_or_environment_is_shown(books: ConsoleWorld) -> None:
    async with books.client(books.globex) as client:
        theirs = (await client.get("/console/production/overview?whole=yes")).text
    async with books.client() as client:
        elsewhere = (await client.get("/console/test/overview?whole=yes")).text
    for html in (theirs, elsewhere):
        told = text_of(html)
        assert "1,234.50" not in told
        assert "Nothing that was expected is open." in told
        assert "Nothing is open." in told
        assert "No file was imported yet." in told
    assert "Globex" in theirs


async def test_amounts_and_days_are_written_as_the_tenant_writes_them(books: ConsoleWorld) -> None:
    changed = await books.globex.request("PATCH", f"/tenants/{books.globex.id}/settings", json={"locale": "de-DE"})
    assert changed.status_code == 200, changed.text
    item = {"amount": "1234.50", "currency": "EUR", "direction": "credit", "dueDate": "2026-01-31"}
    assert (await books.globex.post("/expected-transactions", item, "test")).status_code == 201
    async with books.client(books.globex) as client:
        told = text_of((await client.get("/console/test/overview?whole=yes")).text)
    assert "1.234,50" in told


def test_the_longest_bar_is_the_largest_amount_and_none_that_is_something_vanishes() -> None:
    amounts = (1, 0, 50, 10**18, 5, 0)
    names = ("not_due", "days1_to30", "days31_to60", "days61_to90", "over90_days", "no_due_date")
    buckets = dict(zip(names, (figure("EUR", 1, minor) for minor in amounts), strict=True))
    nothing = figure("EUR", 0, 0)
    line = AgeingLine(currency="EUR", direction="credit", open=nothing, overdue=nothing, buckets=buckets, name=None)
    assert [bar.length for bar in ageing_chart(line)] == [1, 0, 1, LENGTH, 1, 0]


def test_a_week_in_which_nothing_came_has_no_column_and_one_without_a_match_an_empty_one() -> None:
    weeks = [
        WeeklyRate(begins_on=date(2026, 1, 5), asking=asking, matched=matched)
        for asking, matched in ((0, 0), (4, 0), (4, 3), (3, 3))
    ]
    assert [column.height for column in weekly_chart(weeks)] == [None, 0, 750, LENGTH]
    assert [week.rate for week in weeks] == [None, 0, 0.75, 1]


def test_reasons_are_counted_over_currencies_and_sides_the_most_first() -> None:
    lines = [
        ExceptionLine(
            side=side,
            reason_code=reason,
            currency=currency,
            direction="credit",
            open=figure(currency, count, 1),
            oldest_days=None,
            list_url=None,
        )
        for side, reason, currency, count in (
            ("expected", "ambiguous", "EUR", 2),
            ("incoming", "ambiguous", "USD", 2),
            ("incoming", None, "EUR", 8),
        )
    ]
    assert [(bar.key, bar.count, bar.length) for bar in reasons_chart(lines)] == [
        ("none", 8, LENGTH),
        ("ambiguous", 4, 500),
    ]

"""Lists and reports at a cut-off: what was booked until then, and what counts of it at the end of that day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from support.cut_offs import at_cut_off
from support.matching_world import World, matching_world
from support.report_figures import (
    AGEING,
    BALANCES,
    BUCKETS,
    EXCEPTIONS,
    EXPECTED,
    INCOMING,
    MATCHES,
    REPORTS,
    SUMMARY,
    ageing,
    everything,
    is_open,
    line_of,
    plain,
    report,
    returned,
    shortened,
    side_summary,
)
from support.report_lives import Life
from support.seeds import seeds
from support.service import Service, Tenant
from support.wire import code, fields

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def check(world: World, rows: dict[str, list[dict[str, Any]]], day: str) -> None:
    """Compare the reports with what the lists come to."""
    summary = await report(world.tenant, SUMMARY, cutOff=day)
    taken = returned(rows[INCOMING])
    told = {
        line_of(line): {side: shortened(line[side]) for side in ("expected", "incoming")} for line in summary["lines"]
    }
    of = {
        line: {path: [row for row in rows[path] if line_of(row) == line] for path in (EXPECTED, INCOMING)}
        for line in {line_of(row) for row in rows[EXPECTED] + rows[INCOMING]}
    }
    assert told == {
        line: {
            "expected": side_summary(EXPECTED, found[EXPECTED], taken),
            "incoming": side_summary(INCOMING, found[INCOMING], taken),
        }
        for line, found in of.items()
    }, day
    statuses = summary["total"]["matches"]["statuses"]
    assert sum(statuses.values()) == len(rows[MATCHES])
    assert statuses["accepted"] == sum(match["status"] == "accepted" for match in rows[MATCHES])
    assert summary["total"]["timeToMatch"]["count"] == sum(row["status"] == "matched" for row in rows[INCOMING])

    late = await everything(world.tenant, AGEING, groupBy="counterparty", cutOff=day)
    assert {(r["name"], *line_of(r)): {name: plain(r["buckets"][name]) for name in BUCKETS} for r in late} == ageing(
        rows[EXPECTED], date.fromisoformat(day), "counterpartyName"
    )
    left: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for side, path in enumerate((EXPECTED, INCOMING)):
        for row in filter(is_open, rows[path]):
            left[row["account"], *line_of(row)][side] += row["openAmountMinor"]
    balances = await everything(world.tenant, BALANCES, cutOff=day)
    assert {
        (r["name"], *line_of(r)): [plain(r[side])[1] for side in ("expected", "incoming")] for r in balances
    } == left
    exceptions = await report(world.tenant, EXCEPTIONS, cutOff=day)
    assert exceptions["on"] == day
    for side, path in (("expected", EXPECTED), ("incoming", INCOMING)):
        open_rows = [row for row in rows[path] if is_open(row) or row["status"] == "pending"]
        lines = [plain(line["open"]) for line in exceptions["lines"] if line["side"] == side]
        assert [sum(n) for n in zip((0, 0), *lines, strict=True)] == [
            len(open_rows),
            sum(row["openAmountMinor"] for row in open_rows),
        ]


@pytest.mark.parametrize("seed", seeds(0, 1))
async def test_reports_are_what_counts_at_the_end_of_a_day(world: World, seed: int) -> None:
    life = Life(world, seed)
    await life.lived(45)
    # As if half of the items had been there for long.
    long_ago = "UPDATE expected_transaction SET created_at = now() - interval '300 days'"
    await world.sql(f"{long_ago} WHERE mod(hashtext(id::text), 2) = 0")
    rows = {path: await everything(world.tenant, path) for path in (EXPECTED, INCOMING, MATCHES)}
    booked = {row["bookingDate"] for row in rows[INCOMING]}
    days = {str(date.fromisoformat(day) - timedelta(days=ago)) for day in booked for ago in (0, 1)}
    for day in (*life.chance.sample(sorted(days), 6), "2999-01-01"):
        await check(world, at_cut_off(rows, day), day)
    then = (await world.bystander.get(SUMMARY, params={"cutOff": "2999-01-01"})).json()
    assert then["total"]["matches"]["statuses"]["accepted"] == 0


async def test_a_payment_over_the_cut_off_and_its_return(world: World) -> None:
    """100.00 of 150.00 on the 30th, 50.00 on the 2nd; 30.00 of the first go back on the 3rd."""
    item = await world.expect("150.00", account="A")
    await world.sql("UPDATE expected_transaction SET created_at = '2026-03-01'")
    first = await world.receive("100.00", bookingDate="2026-03-30", account="A")
    last = await world.receive("50.00", bookingDate="2026-04-02", account="A")
    match = await world.tenant.post(
        MATCHES,
        {
            "legs": [
                {"expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": minor}
                for line, minor in ((first, 10_000), (last, 5_000))
            ],
            "reason": "in two parts",
        },
    )
    assert match.status_code == 201, match.text
    code = {"bankTransactionCode": "PMNT-RCDT-RRTN", "direction": "debit"}
    back = await world.receive("30.00", bookingDate="2026-04-03", account="A", **code)
    body = {"incomingTransactionId": first, "expectedTransactionId": item, "amountMinor": 3_000}
    assert (await world.tenant.post(f"{INCOMING}/{back}/link-reversal", body)).status_code == 200
    at = (await world.sql("SELECT clock_timestamp() AS now"))[0]["now"].isoformat()
    reverse = await world.tenant.post(f"{MATCHES}/{match.json()['id']}/reverse", {"reason": "not theirs"})
    assert reverse.status_code == 200
    # As it was known before the match was taken back, and as it is known now.
    for asked, figures in (
        ({"asOf": at}, [(15_000, 0), (15_000, 10_000), (0, 0), (3_000, 0)]),
        ({}, [(15_000, 0), (15_000, 10_000), (15_000, 15_000), (15_000, 12_000)]),
    ):
        for day, (expected, incoming) in zip(
            ("2026-03-29", "2026-03-30", "2026-04-02", "2026-04-03"), figures, strict=True
        ):
            balances = await everything(world.tenant, BALANCES, cutOff=day, **asked)
            told = {side: sum(plain(row[side])[1] for row in balances) for side in ("expected", "incoming")}
            assert told == {"expected": expected, "incoming": incoming}, (asked, day)
    listed = {
        day: [row["id"] for row in await everything(world.tenant, MATCHES, cutOff=day)]
        for day in ("2026-04-01", "2026-04-02")
    }
    assert listed == {"2026-04-01": [], "2026-04-02": [match.json()["id"]]}
    lines = await everything(world.tenant, INCOMING, cutOff="2026-04-02", sort="bookingDate")
    assert [row["id"] for row in lines] == [first, last]


async def test_a_credit_note_counts_from_the_day_on_which_somebody_says_so(world: World) -> None:
    """It has no booking date: neither a cut-off before that day nor a locked day has it."""
    invoice = await world.expect("100.00", externalId="invoice")
    note = await world.expect("30.00", direction="debit", externalId="note")
    await world.sql("UPDATE expected_transaction SET created_at = now() - interval '300 days'")
    now = datetime.now(UTC).date()
    leg = {"expectedTransactionId": invoice, "contraExpectedTransactionId": note}

    async def at(day: date) -> tuple[list[int], int, int]:
        late = await everything(world.tenant, AGEING, cutOff=str(day))
        statuses = (await report(world.tenant, SUMMARY, cutOff=str(day)))["total"]["matches"]["statuses"]
        listed = await everything(world.tenant, MATCHES, cutOff=str(day))
        return sorted(plain(line["open"])[1] for line in late), statuses["accepted"], len(listed)

    async def stated(minor: int, **given: str) -> dict[str, Any]:
        body = {"legs": [{**leg, "amountMinor": minor}], "reason": "credited", **given}
        answer = await world.tenant.post(MATCHES, body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    yesterday = now - timedelta(days=1)
    match = await stated(2_000)
    assert match["effectiveOn"] in {str(now), str(now + timedelta(days=1))}
    assert await at(yesterday) == ([3_000, 10_000], 0, 0)
    assert await at(now + timedelta(days=1)) == ([1_000, 8_000], 1, 1)
    # One that somebody says is of any day, unless it is locked; else it is of the first open one.
    assert (await stated(100, effectiveOn=str(yesterday)))["effectiveOn"] == str(yesterday)
    lock = {"through": str(yesterday), "reason": "closed", "override": True}
    assert (await world.tenant.post("/period-locks", lock)).status_code == 201
    refused = {"legs": [{**leg, "amountMinor": 1}], "reason": "late", "effectiveOn": str(yesterday)}
    assert code(await world.tenant.post(MATCHES, refused)) == "period_locked"
    assert await at(yesterday) == ([2_900, 9_900], 1, 1)
    answer = await world.tenant.post(f"{MATCHES}/{match['id']}/reverse", {"reason": "another one's"})
    assert answer.json()["reversedOn"] == match["effectiveOn"]
    assert await at(now + timedelta(days=1)) == ([2_900, 9_900], 1, 2)


async def test_an_instant_shows_a_cut_off_as_it_was_known(world: World) -> None:
    life = Life(world, 5)
    today = datetime.now(UTC).date()
    asked = [{"cutOff": str(today - timedelta(days=ago))} for ago in (0, 31)]
    recorded = []
    for _ in range(3):
        await life.lived(14)
        at = (await world.sql("SELECT clock_timestamp() AS now"))[0]["now"].isoformat()
        texts = [
            (path, given, (await world.tenant.get(path, params=given)).text) for path in REPORTS for given in asked
        ]
        recorded.append((at, texts))
    for at, texts in recorded:
        for path, given, text in texts:
            assert (await world.tenant.get(path, params={**given, "asOf": at})).text == text, (path, given)


async def test_items_are_there_from_the_day_on_which_they_were_stored(world: World) -> None:
    item = await world.expect("10.00")
    path = f"/tenants/{world.tenant.id}/settings"
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):  # never on the same day
        assert (await world.tenant.request("PATCH", path, json={"timezone": zone})).status_code == 200
        on = date.fromisoformat((await report(world.tenant, AGEING))["on"])
        for day, found in ((on, [item]), (on - timedelta(days=1), [])):
            assert [row["id"] for row in await everything(world.tenant, EXPECTED, cutOff=str(day))] == found
            lines = (await report(world.tenant, AGEING, cutOff=str(day)))["data"]
            assert [plain(line["open"]) for line in lines] == [(1, 1_000) for _ in found]


async def test_what_is_wrong_with_a_cut_off(world: World) -> None:
    for path in (*REPORTS, EXPECTED, INCOMING, MATCHES):
        answer = await world.tenant.get(path, params={"cutOff": "31.3.2026"})
        assert (answer.status_code, fields(answer)) == (422, {("cutOff", "date_malformed")})
        for day in ("0001-01-01", "9999-12-31"):
            assert (await world.tenant.get(path, params={"cutOff": day})).status_code == 200
    for name in ("expectedFilter", "incomingFilter"):
        answer = await world.tenant.post("/matches/match", {name: {"cutOff": "2026-03-31"}})
        assert (answer.status_code, fields(answer)) == (422, {(f"/{name}/cutOff", "extra_forbidden")})

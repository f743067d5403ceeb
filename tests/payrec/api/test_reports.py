"""Reports: equal to what the lists add up to and to the documented queries, over random lives; filters and pages."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from payrec.constants import TEXT_LENGTH_MAX
from payrec.domain.matching.rules import Reason
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
    STATUSES,
    SUMMARY,
    ageing,
    documented,
    everything,
    in_order,
    is_open,
    line_of,
    plain,
    rate,
    report,
    returned,
    shortened,
    side_summary,
    waited,
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


async def lists(world: World) -> dict[str, list[dict[str, Any]]]:
    return {path: await everything(world.tenant, path) for path in (EXPECTED, INCOMING, MATCHES)}


async def check_summary(world: World, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Compare the summary with the lists."""
    summary = await report(world.tenant, SUMMARY)
    taken = returned(rows[INCOMING])
    told = {
        line_of(line): {side: shortened(line[side]) for side in ("expected", "incoming")} for line in summary["lines"]
    }
    found: dict[Any, Any] = {}
    for line in {line_of(row) for row in rows[EXPECTED] + rows[INCOMING]}:
        of = {path: [row for row in rows[path] if line_of(row) == line] for path in (EXPECTED, INCOMING)}
        found[line] = {
            "expected": side_summary(EXPECTED, of[EXPECTED], taken),
            "incoming": side_summary(INCOMING, of[INCOMING], taken),
        }
    assert told == found
    assert [line_of(line) for line in summary["lines"]] == sorted(found)
    for path, side in ((EXPECTED, "expected"), (INCOMING, "incoming"), (MATCHES, "matches")):
        counts = Counter(row["status"] for row in rows[path])
        assert summary["total"][side]["statuses"] == {status: counts[status] for status in STATUSES[path]}
    engine = [m for m in rows[MATCHES] if m["status"] == "accepted" and m["decidedBy"].startswith("engine:")]
    accepted = sum(m["status"] == "accepted" for m in rows[MATCHES])
    assert summary["total"]["matches"]["autoAcceptRate"] == rate(len(engine), accepted)
    for line in summary["matches"]:
        mine = [m for m in rows[MATCHES] if m["currency"] == line["currency"]]
        for status, figure in line["statuses"].items():
            of_status = [m["amountMinor"] for m in mine if m["status"] == status]
            assert plain(figure) == (len(of_status), sum(of_status))
    waits = sorted(waited(row) for row in rows[INCOMING] if row["status"] == "matched")
    nth = [waits[math.ceil(share * len(waits)) - 1] if waits else None for share in (0.5, 0.9)]
    assert summary["total"]["timeToMatch"] == {"count": len(waits), "medianSeconds": nth[0], "p90Seconds": nth[1]}


async def check_open(world: World, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Compare ageing, open balances and exceptions with the lists."""
    day = date.fromisoformat((await report(world.tenant, AGEING))["on"])
    for group_by, member in ((None, None), ("counterparty", "counterpartyName"), ("account", "account")):
        grouped = {"groupBy": group_by} if group_by else {}
        told = await everything(world.tenant, AGEING, **grouped)
        found = ageing(rows[EXPECTED], day, member)
        buckets = {(r["name"], *line_of(r)): {name: plain(r["buckets"][name]) for name in BUCKETS} for r in told}
        assert buckets == found
        assert [(r["name"], *line_of(r)) for r in told] == in_order(found)
        for line in told:
            late = [plain(line["buckets"][name]) for name in BUCKETS[1:5]]
            assert plain(line["overdue"]) == tuple(map(sum, zip(*late, strict=True)))
        if member is None:
            continue
        balances = await everything(world.tenant, BALANCES, **grouped)
        open_now: dict[Any, list[list[int]]] = defaultdict(lambda: [[0, 0], [0, 0]])
        for side, path in enumerate((EXPECTED, INCOMING)):
            for row in filter(is_open, rows[path]):
                counted = open_now[row[member], *line_of(row)][side]
                counted[0] += 1
                counted[1] += row["openAmountMinor"]
        of_report = {
            (r["name"], *line_of(r)): [list(plain(r["expected"])), list(plain(r["incoming"]))] for r in balances
        }
        assert of_report == dict(open_now)
        assert [(r["name"], *line_of(r)) for r in balances] == in_order(open_now)
    exceptions = await report(world.tenant, EXCEPTIONS)
    reasons: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for path in (EXPECTED, INCOMING):
        for row in rows[path]:
            if is_open(row) or row["status"] == "pending":
                reasons[path, row["reasonCode"], *line_of(row)].append(row)
    assert len(exceptions["lines"]) == len(reasons)
    for line in exceptions["lines"]:
        path = EXPECTED if line["side"] == "expected" else INCOMING
        counted_rows = reasons[path, line["reasonCode"], *line_of(line)]
        assert plain(line["open"]) == (len(counted_rows), sum(row["openAmountMinor"] for row in counted_rows))
        days = [row["bookingDate"] if path == INCOMING else row["dueDate"] or row["expectedTo"] for row in counted_rows]
        ages = [(day - date.fromisoformat(text)).days for text in days if text]
        assert line["oldestDays"] == max(ages, default=None)
        if line["reasonCode"] is None:
            assert line["listUrl"] is None
            continue
        listed = await world.tenant.get(line["listUrl"], params=None)
        assert sorted(row["id"] for row in listed.json()["data"]) == sorted(row["id"] for row in counted_rows)


async def check_documented(world: World) -> None:
    """Compare the reports with what the documented queries say."""
    summary, ageing_report = await report(world.tenant, SUMMARY), await report(world.tenant, AGEING)
    day = date.fromisoformat(ageing_report["on"])
    queries = documented(day)
    found = {name: await world.sql(text) for name, text in queries.items()}
    lines = {line_of(line): line for line in summary["lines"]}
    for side in ("expected", "incoming"):
        statuses = {
            (*line, status): plain(figure)
            for line, told in lines.items()
            for status, figure in told[side]["statuses"].items()
            if figure["count"]
        }
        rows = found.pop(f"summary: {side}")
        assert statuses == {(*line_of(r), r["status"]): (r["count"], r["minor"]) for r in rows}
        for line, told in lines.items():
            mine = [r for r in rows if line_of(r) == line]
            matched = sum(r["matched_minor"] for r in mine)
            asking = [r for r in mine if r["status"] in {"open", "unmatched", "partially_matched"}]
            assert told[side]["amounts"]["matched"]["amountMinor"] == matched
            assert told[side]["amounts"]["open"]["amountMinor"] == sum(r["minor"] - r["matched_minor"] for r in asking)
            assert plain(told[side]["total"])[1] == sum(r["stated_minor"] for r in mine)
    matches = {(r["currency"], r["status"]): (r["count"], r["amount_minor"]) for r in found.pop("summary: matches")}
    told_matches = {(m["currency"], s): plain(f) for m in summary["matches"] for s, f in m["statuses"].items()}
    assert {key: figure for key, figure in told_matches.items() if figure[0]} == matches
    [waits] = found.pop("summary: time to match")
    assert summary["total"]["timeToMatch"] == {
        "count": waits["count"],
        "medianSeconds": waits["median_seconds"],
        "p90Seconds": waits["p90_seconds"],
    }
    buckets = {(*line_of(r), r["bucket"]): (r["count"], r["open_minor"]) for r in found.pop("ageing")}
    told_buckets = {(*line_of(r), name): plain(r["buckets"][name]) for r in ageing_report["data"] for name in BUCKETS}
    assert {key: figure for key, figure in told_buckets.items() if figure[0]} == buckets
    balances = {(r["side"], r["name"], *line_of(r)): (r["count"], r["open_minor"]) for r in found.pop("open balances")}
    told_balances = {
        (side, r["name"], *line_of(r)): plain(r[side])
        for r in await everything(world.tenant, BALANCES)
        for side in ("expected", "incoming")
    }
    assert {key: figure for key, figure in told_balances.items() if figure[0]} == balances
    reasons: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for r in found.pop("exceptions"):
        reason = "duplicate" if r["duplicate"] else Reason(r["reason"]).code if r["reason"] is not None else None
        reasons[r["side"], reason, *line_of(r)].append((r["count"], r["open_minor"]))
    told_reasons = {
        (r["side"], r["reasonCode"], *line_of(r)): plain(r["open"])
        for r in (await report(world.tenant, EXCEPTIONS))["lines"]
    }
    assert told_reasons == {key: tuple(map(sum, zip(*of, strict=True))) for key, of in reasons.items()}
    assert found == {}, "a documented query that nothing is compared with"


@pytest.mark.parametrize("seed", seeds(0, 1, 2))
async def test_reports_are_what_the_lists_and_the_documented_queries_add_up_to(world: World, seed: int) -> None:
    life = Life(world, seed)
    for _ in range(3):
        await life.lived()
        rows = await lists(world)
        await check_summary(world, rows)
        await check_open(world, rows)
        await check_documented(world)
    summary = (await world.bystander.get(SUMMARY)).json()
    assert summary["total"]["matches"]["statuses"]["accepted"] == 0
    nowhere = (await world.tenant.get(SUMMARY, "test")).json()
    assert (nowhere["lines"], nowhere["total"]["expected"]["count"]) == ([], 0)


async def test_an_instant_shows_every_report_as_it_was(world: World) -> None:
    life = Life(world, 7)
    recorded = []
    for _ in range(4):
        await life.lived(14)
        at = (await world.sql("SELECT clock_timestamp() AS now"))[0]["now"]
        texts = {}
        for path in REPORTS:
            for grouped in ({}, {"groupBy": "counterparty"}) if path in {AGEING, BALANCES} else ({},):
                texts[path, *grouped.values()] = (grouped, (await world.tenant.get(path, params=grouped)).text)
        recorded.append((at.isoformat(), texts))
    await life.lived(14)
    for at, texts in recorded:
        for (path, *_), (grouped, text) in texts.items():
            answer = await world.tenant.get(path, params={**grouped, "asOf": at})
            assert answer.status_code == 200, answer.text
            # The lists that it names are those of the instant.
            assert re.sub(r'&asOf=[^"&]*', "", answer.text) == text, path


@pytest.mark.parametrize("path", REPORTS)
async def test_an_instant_that_cannot_be_shown_is_refused(world: World, path: str) -> None:
    for instant in ("2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"):
        answer = await world.tenant.get(path, params={"asOf": instant})
        assert (answer.status_code, code(answer)) == (422, "as_of_out_of_range")


@pytest.mark.parametrize("path", REPORTS)
@pytest.mark.parametrize("wrong", ["asof", "status", "groupby", "buckets"])
async def test_an_unknown_parameter_is_refused(acme: Tenant, path: str, wrong: str) -> None:
    answer = await acme.get(path, params={wrong: "x"})
    assert answer.status_code == 422
    assert {pointer for pointer, _ in fields(answer)} == {wrong}


@pytest.mark.parametrize("wrong", [{"currency": "EURO"}, {"groupBy": "name"}, {"limit": 0}, {"asOf": "2026-01-01"}])
async def test_a_parameter_that_is_none_is_refused(acme: Tenant, wrong: dict[str, Any]) -> None:
    answer = await acme.get(AGEING, params=wrong)
    assert answer.status_code == 422
    assert {pointer for pointer, _ in fields(answer)} == set(wrong)


async def test_filters_narrow_every_report(world: World) -> None:
    for currency, account in (("EUR", "A"), ("EUR", "B"), ("USD", "A"), ("EUR", None)):
        await world.expect("10.00", currency=currency, account=account)
        await world.receive("10.00", currency=currency, account=account)
    for given, count in (({"currency": "EUR"}, 3), ({"account": "A"}, 2), ({"account": "A", "currency": "USD"}, 1)):
        total = (await report(world.tenant, SUMMARY, **given))["total"]
        assert (total["expected"]["count"], total["incoming"]["count"]) == (count, count)
        for path, member in ((AGEING, "open"), (BALANCES, "expected"), (BALANCES, "incoming")):
            assert sum(row[member]["count"] for row in await everything(world.tenant, path, **given)) == count
        lines = (await report(world.tenant, EXCEPTIONS, **given))["lines"]
        assert sum(line["open"]["count"] for line in lines) == 2 * count
    assert (await report(world.tenant, AGEING, direction="debit"))["data"] == []
    now = (await world.sql("SELECT clock_timestamp() AS now"))[0]["now"].isoformat()
    for path in (SUMMARY, EXCEPTIONS, AGEING, BALANCES):
        assert "EUR" not in (await world.tenant.get(path, params={"createdFrom": now})).text
        before = await world.tenant.get(path, params={"createdTo": now})
        assert before.text == (await world.tenant.get(path)).text


async def test_matches_of_an_account_are_those_with_its_transactions(world: World) -> None:
    for number, account in enumerate(("A", "B", "B")):
        reference = f"INV-2026-00{number}"
        await world.expect("10.00", reference=reference, account=account, counterpartyName="Bolt GmbH")
        await world.receive("10.00", remittance=reference, account=account, counterpartyName="Bolt GmbH")
    await world.run()
    proposed = {}
    for account in ("A", "B", "C"):
        total = (await report(world.tenant, SUMMARY, account=account))["total"]
        proposed[account] = total["matches"]["statuses"]["proposed"]
    assert proposed == {"A": 1, "B": 2, "C": 0}


async def test_groups_come_in_pages(world: World) -> None:
    for name in ("c", "a", "B", None, "a"):
        await world.expect("1.00", counterpartyName=name)
        await world.expect("1.00", counterpartyName=name, direction="debit")
    whole = await everything(world.tenant, AGEING, groupBy="counterparty")
    assert [(r["name"], r["direction"]) for r in whole] == [
        (name, direction) for name in ("B", "a", "c", None) for direction in ("credit", "debit")
    ]
    for limit in (1, 3, 7):
        found, parameters = [], {"groupBy": "counterparty", "limit": limit}
        while True:
            page = await report(world.tenant, AGEING, **parameters)
            assert len(page["data"]) <= limit
            found += page["data"]
            if not page["hasMore"]:
                break
            parameters["cursor"] = page["nextCursor"]
        assert found == whole
    cursor = (await report(world.tenant, AGEING, groupBy="counterparty", limit=1))["nextCursor"]
    for other in ({"groupBy": "account"}, {"groupBy": "counterparty", "currency": "EUR"}):
        answer = await world.tenant.get(AGEING, params={**other, "cursor": cursor})
        assert (answer.status_code, code(answer)) == (400, "invalid_cursor")


@pytest.mark.parametrize("letter", ["z", '"', "\n", "\u0416", "\u6771", "\U0001f600"])
async def test_groups_of_the_longest_names_come_in_pages(world: World, letter: str) -> None:
    names = [f"{letter * (TEXT_LENGTH_MAX - 1)}{number}" for number in range(3)]
    for name in names:
        await world.expect("1.00", counterpartyName=name)
    found = await everything(world.tenant, AGEING, groupBy="counterparty", limit=1)
    assert [line["name"] for line in found] == names


async def test_it_is_late_when_the_day_is_over_for_the_tenant(world: World) -> None:
    path = f"/tenants/{world.tenant.id}/settings"
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):  # never on the same day
        answer = await world.tenant.request("PATCH", path, json={"timezone": zone})
        assert answer.status_code == 200
        found = await report(world.tenant, AGEING)
        days = {datetime.now(ZoneInfo(zone)).date(), date.fromisoformat(found["on"])}
        assert len(days) == 1
    today = date.fromisoformat(found["on"])
    await world.expect("1.00", dueDate=str(today))
    await world.expect("1.00", dueDate=str(today - timedelta(days=1)))
    [line] = (await report(world.tenant, AGEING))["data"]
    assert (plain(line["buckets"]["notDue"]), plain(line["buckets"]["days1To30"])) == ((1, 100), (1, 100))
    await world.tenant.request("PATCH", path, json={"timezone": "Pacific/Kiritimati"})
    [line] = (await report(world.tenant, AGEING))["data"]
    assert plain(line["overdue"]) == (2, 200)


async def test_the_list_of_an_exception_has_what_was_counted_of_an_account_and_at_an_instant(world: World) -> None:
    """Items have an account to be asked for as well, and what was open then is listed as it was then."""
    items = [await world.expect(f"{n}.00", account=account) for n, account in ((1, "A"), (2, "A"), (3, "B"), (4, None))]
    await world.receive("9.00", account="A")
    await world.run()
    at = (await world.sql("SELECT clock_timestamp() AS now"))[0]["now"].isoformat()
    assert (await world.tenant.post(f"{EXPECTED}/{items[0]}/void", {"reason": "mistaken"})).status_code == 200
    for given, of_items in (({}, [2, 3, 4]), ({"account": "A"}, [2]), ({"account": "A", "asOf": at}, [1, 2])):
        lines = (await report(world.tenant, EXCEPTIONS, **given))["lines"]
        assert sorted(line["side"] for line in lines) == ["expected", "incoming"]
        for line in lines:
            listed = await world.tenant.get(line["listUrl"], params=None)
            assert listed.status_code == 200, listed.text
            found = [row["openAmountMinor"] for row in listed.json()["data"]]
            assert plain(line["open"]) == (len(found), sum(found))
            assert sorted(found) == ([minor * 100 for minor in of_items] if line["side"] == "expected" else [900])
    assert len((await world.bystander.get(EXPECTED, params={"account": "A"})).json()["data"]) == 2
    assert (await world.tenant.get(EXPECTED, "test", params={"account": "A"})).json()["data"] == []

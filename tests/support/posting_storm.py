"""Clients who all decide about the same lines and items, and the books that read on meanwhile."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Any

import httpx2

from payrec.domain.scope import TenantScope
from support.postings import CODES, played, signed
from support.report_figures import EXPECTED, INCOMING, MATCHES, everything
from support.service import Service, Tenant

LOCKS, POSTINGS, ACKNOWLEDGEMENTS = "/period-locks", "/postings", "/postings/acknowledgements"
ITEMS, LINES = 6, 6
REFUSALS = {
    (404, "not_found"),
    (409, "already_matched"),
    (409, "invalid_state"),
    (409, "match_run_in_progress"),
    (409, "period_locked"),
    (409, "stale_proposal"),
    (422, "amount_exceeds_open"),
    (422, "validation_failed"),
}
"""What somebody may hear who was not the first."""
DOINGS = (
    *["match"] * 5, *["accept"] * 3, "many", *["reverse"] * 3, *["classify"] * 2, "restore", "restore", "ignore",
    *["give_back"] * 2, "lock", "reopen", "reopen", "set_codes", *["approve"] * 2, "reject",
)  # fmt: skip
APPROVED_ABOVE = 2_500

Row = dict[str, Any]


def codes(variant: int) -> Row:
    """Return where the books have what: other codes in each variant, which say behind a point which one it is."""

    def of(given: Any) -> Any:
        if isinstance(given, list):
            return [
                {name: f"{value}.{variant}" if name == "code" else value for name, value in row.items()}
                for row in given
            ]
        return f"{given}.{variant}"

    return {name: of(given) for name, given in CODES.items()}


class Storm:
    """Clients of one tenant environment who know the same lines, items and matches."""

    def __init__(self, service: Service, tenant: Tenant, scope: TenantScope, second: Tenant) -> None:
        self.service, self.tenant, self.scope = service, tenant, scope
        self.second = second
        """The tenant as another approver sees it."""
        self.items: list[str] = []
        self.lines: list[str] = []
        self.made: dict[str, Row] = {}
        """Matches that somebody made or has seen proposed."""
        self.locks: list[str] = []
        self.answers: Counter[tuple[str, int, str]] = Counter()
        self.number = 0

    async def begin(self) -> None:
        """Store what is decided about, and settings in which some of it waits for a second person."""
        limit = {"secondPersonAboveMinor": APPROVED_ABOVE, "currency": "EUR"}
        await self._set({"approval": limit, "posting": codes(0)})
        for number in range(ITEMS):
            way = "debit" if number == 0 else "credit"
            self.items.append(await self._item("400.00", direction=way, externalId=f"E{number}"))
        for number in range(LINES):
            account = ("GIRO", "STRIPE")[number % 2]
            way = "debit" if number == 0 else "credit"
            day = f"2026-03-{number + 1:02}"
            self.lines.append(await self._line("500.00", direction=way, account=account, bookingDate=day))

    async def client(self, chance: Random, *, until: float, now: Any) -> None:
        """Do one thing after the other until the time is over."""
        while now() < until:
            doing = chance.choice(DOINGS)
            answer = await getattr(self, f"_{doing}")(chance)
            if answer is not None:
                said = "" if answer.is_success else answer.json()["code"]
                self.answers[doing, answer.status_code, said] += 1

    async def others(self, *, until: float, now: Any) -> None:
        """Store pairs that prove each other and have them proposed, one after the other."""
        while now() < until:
            for _ in range(4):
                self.number += 1
                name = f"INV-2026-{self.number:04}"
                self.items.append(await self._item("20.00", reference=name, externalId=name))
                self.lines.append(await self._line("20.00", remittance=name, account="GIRO"))
            run = await self.tenant.post("/matches/match", {"wait": 20})
            assert run.status_code == 200, run.text
            page = await self.tenant.get(MATCHES, params={"status": "proposed", "limit": 20})
            self.made.update({row["id"]: row for row in page.json()["data"]})

    async def settle(self) -> None:
        """Let nothing wait for a second person any more."""
        for match in await everything(self.tenant, MATCHES, status="pending_approval"):
            answer = await self.second.post(f"{MATCHES}/{match['id']}/approve")
            assert answer.status_code == 200, answer.text

    async def _set(self, given: Row) -> httpx2.Response:
        answer = await self.tenant.request("PATCH", f"/tenants/{self.tenant.id}/settings", json=given)
        assert answer.status_code == 200, answer.text
        return answer

    async def _item(self, amount: str, **given: Any) -> str:
        body = {"direction": "credit", "currency": "EUR", "dueDate": "2026-03-10", "amount": amount, **given}
        return await self._stored(EXPECTED, body)

    async def _line(self, amount: str, **given: Any) -> str:
        self.number += 1
        body = {"direction": "credit", "currency": "EUR", "bookingDate": "2026-03-12", "amount": amount}
        return await self._stored(INCOMING, {**body, "bankReference": f"booking-{self.number:06}", **given})

    async def _stored(self, path: str, body: Row) -> str:
        answer = await self.tenant.post(path, body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def _match(self, chance: Random) -> httpx2.Response:
        item, line = chance.choice(self.items[:ITEMS]), chance.choice(self.lines[:LINES])
        joined = {
            "expectedTransactionId": item, "incomingTransactionId": line, "amountMinor": chance.randrange(100, 3_000)
        }  # fmt: skip
        fee = {"type": "fee", "expectedTransactionId": item, "amountMinor": 7, "currency": "EUR"}
        body: Row = {"legs": [joined], "reason": "by chance", "adjustments": [fee][: chance.randrange(2)]}
        if chance.random() < 0.2:
            body["effectiveOn"] = "2026-03-20"
        answer = await self.tenant.post(MATCHES, body)
        if answer.status_code == 201:
            self.made[answer.json()["id"]] = answer.json()
        return answer

    def _one(self, chance: Random) -> str | None:
        return chance.choice(list(self.made)) if self.made else None

    async def _on_match(self, chance: Random, verb: str, body: Row | None, who: Tenant) -> httpx2.Response | None:
        match_id = self._one(chance)
        return (match_id and await who.post(f"{MATCHES}/{match_id}/{verb}", body)) or None

    async def _accept(self, chance: Random) -> httpx2.Response | None:
        return await self._on_match(chance, "accept", None, self.tenant)

    async def _reverse(self, chance: Random) -> httpx2.Response | None:
        return await self._on_match(chance, "reverse", {"reason": "by chance"}, self.tenant)

    async def _approve(self, chance: Random) -> httpx2.Response | None:
        return await self._on_match(chance, "approve", None, self.second)

    async def _reject(self, chance: Random) -> httpx2.Response | None:
        return await self._on_match(chance, "reject", {"reason": "no"}, self.tenant)

    async def _many(self, chance: Random) -> httpx2.Response | None:
        return await self.tenant.post(f"{MATCHES}/accept", {"ids": chance.choices(list(self.made) or ["none"], k=4)})

    async def _classify(self, chance: Random) -> httpx2.Response:
        body: Row = {"category": chance.choice(["interest", "gift"])}
        return await self.tenant.post(f"{INCOMING}/{chance.choice(self.lines)}/classify", body)

    async def _ignore(self, chance: Random) -> httpx2.Response:
        return await self.tenant.post(f"{INCOMING}/{chance.choice(self.lines)}/ignore", {"reason": "noise"})

    async def _restore(self, chance: Random) -> httpx2.Response:
        return await self.tenant.post(f"{INCOMING}/{chance.choice(self.lines)}/restore")

    async def _give_back(self, chance: Random) -> httpx2.Response | None:
        match_id = self._one(chance)
        if match_id is None:
            return None
        [joined, *_] = self.made[match_id]["legs"]
        way = (await self.tenant.get(f"{INCOMING}/{joined['incomingTransactionId']}")).json()["direction"]
        other = {"credit": "debit", "debit": "credit"}[way]
        given = {"direction": other, "bankTransactionCode": "PMNT-RCDT-RRTN", "bookingDate": "2026-03-20"}
        back = await self._line(f"0.{chance.randrange(1, 100):02}", **given)
        body = {name: joined[name] for name in ("expectedTransactionId", "incomingTransactionId")}
        if chance.random() < 0.3:
            # Of a payment that perhaps nobody has matched.
            body = {"incomingTransactionId": chance.choice(self.lines[1:LINES])}
        return await self.tenant.post(f"{INCOMING}/{back}/link-reversal", body)

    async def _lock(self, chance: Random) -> httpx2.Response:
        body: Row = {"through": f"2026-03-{chance.randrange(1, 32):02}", "reason": "closed", "override": True}
        if chance.random() < 0.5:
            body["account"] = chance.choice(["GIRO", "STRIPE"])
        answer = await self.tenant.post(LOCKS, body)
        if answer.status_code == 201:
            self.locks.append(answer.json()["id"])
        return answer

    async def _reopen(self, chance: Random) -> httpx2.Response | None:
        if not self.locks:
            return None
        return await self.tenant.post(f"{LOCKS}/{chance.choice(self.locks[-4:])}/reopen", {"reason": "by chance"})

    async def _set_codes(self, chance: Random) -> httpx2.Response:
        return await self._set({"posting": codes(chance.randrange(3))})


class Books:
    """Takes postings over as they come, a batch at a time, and acknowledges each until it has an answer."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.taken: list[Row] = []
        self.batches = 0

    async def read_on(self, chance: Random) -> None:
        """Take a batch over, and try what cannot be."""
        after = len(self.taken)
        page = await self.tenant.get(POSTINGS, params={"after": after, "limit": chance.randrange(1, 60)})
        assert page.status_code == 200, page.text
        found = page.json()["data"]
        assert [posting["sequence"] for posting in found] == list(range(after + 1, after + len(found) + 1))
        self.taken += found
        if not found:
            return
        self.batches += 1
        for status in (201, 200):
            answer = await self._acknowledge(len(self.taken), f"B{self.batches}")
            assert (answer.status_code, answer.json()["fromSequence"]) == (status, after + 1), answer.text
        for through, batch, status in (
            (len(self.taken) + 10**6, "never sent", 422), (after or 1, "backwards", 409)
        ):  # fmt: skip
            answer = await self._acknowledge(through, batch)
            assert answer.status_code == status, answer.text

    async def _acknowledge(self, through: int, batch: str) -> httpx2.Response:
        return await self.tenant.post(ACKNOWLEDGEMENTS, {"throughSequence": through, "externalBatchId": batch})


def family(code: str) -> str:
    """Return a code without its variant."""
    return code.partition(".")[0]


def is_whole(found: list[Row]) -> None:
    """See that what was taken back whole comes to nothing, by its very codes and whatever was taken back before.

    But a return and its payment have of each other what they had.
    """
    sums: dict[int, Counter[tuple[str | None, ...]]] = defaultdict(Counter)
    over = set()
    for posting in found:
        of = posting.get("reversesSequence", posting["sequence"])
        for line in posting["lines"]:
            # Each account has what it moved: of one and the other these come to nothing together.
            code = "of an account" if "incomingTransactionId" in line else line["code"]
            sums[of][code, line["currency"], line.get("expectedExternalId")] += signed(line)
        if posting["kind"].endswith("_reversal"):
            over.add(of)
    assert not any(any(sums[of].values()) for of in over)


async def is_what_is_matched(tenant: Tenant, found: list[Row]) -> None:
    """Compare what postings come to with what the lists say, where nothing waits for a second person.

    By line, by item, and by code, whichever variant of it.
    """
    of_line, of_item, of_code = played(found)
    is_whole(found)
    lines, items = await everything(tenant, INCOMING), await everything(tenant, EXPECTED)
    back: Counter[str] = Counter()
    for line in lines:
        for link in line["reversalOf"]:
            for line_id in (line["id"], link["incomingTransactionId"]):
                back[line_id] += link["amountMinor"]
    accounts: dict[str | None, str] = {given["account"]: given["code"] for given in CODES["accounts"]}
    suspense: str = CODES["suspenseCode"]
    categories: dict[str, str] = {given["category"]: given["code"] for given in CODES["categories"]}
    by_line: Counter[str] = Counter()
    by_item: Counter[str] = Counter()
    by_code: Counter[str] = Counter()
    for line in lines:
        way = 1 if line["direction"] == "credit" else -1
        minor = line["matchedAmountMinor"] + back[line["id"]]
        if line["status"] == "classified":
            minor = line["amountMinor"]
            by_code[categories.get(line["classification"]["category"], suspense)] -= way * (minor - back[line["id"]])
        by_line[line["id"]] += way * minor
        by_code[accounts.get(line["account"], suspense)] += way * minor
    for item in items:
        minor = item["matchedAmountMinor"] * (-1 if item["direction"] == "credit" else 1)
        by_item[item["externalId"]] += minor
        by_code[CODES["receivableCode" if item["direction"] == "credit" else "payableCode"]] += minor
    ways = {item["id"]: -1 if item["direction"] == "credit" else 1 for item in items}
    fees = {given["type"]: given["code"] for given in CODES["adjustments"]}
    for match in await everything(tenant, MATCHES, status="accepted"):
        for adjustment in match["adjustments"]:
            by_code[fees[adjustment["type"]]] -= ways[adjustment["expectedTransactionId"]] * adjustment["amountMinor"]
    assert of_line == {key: minor for key, minor in by_line.items() if minor}
    assert of_item == {key: minor for key, minor in by_item.items() if minor}
    sums: Counter[str] = Counter()
    for (code, _), minor in of_code.items():
        sums[family(code)] += minor
    assert {key: minor for key, minor in sums.items() if minor} == {k: minor for k, minor in by_code.items() if minor}

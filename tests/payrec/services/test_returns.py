"""Pay, accept, take back and match again, in any order and at once: what is settled, matched and open adds up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import psycopg
import pytest

from payrec.constants import KEYS_VERSION
from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from payrec.errors import AlreadyMatchedError
from payrec.services import return_releases, returns
from payrec.services.return_ledger import ReturnLedger, Wanted
from payrec.services.returns import LINKS_PER_COMMIT_MAX
from payrec.storage import returns as storage_returns
from payrec.storage.return_candidates import ReturnCandidateStore
from payrec.storage.returns import ReturnStore
from support.invariants import violations
from support.matching_world import World, matching_world
from support.plans import explained, handled
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running

pytestmark = pytest.mark.anyio

STEPS = 40
RETURN = {"direction": "debit", "bookingDate": "2026-03-20", "returnReason": "AC04"}


@pytest.fixture(scope="module")
def addresses(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database that the module may look into past the service."""
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def service(addresses: EmbeddedDatabase) -> AsyncIterator[Service]:
    """Return a service with its worker over that database."""
    async with running(make_config(addresses)) as started:
        yield started


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


class Story:
    """What happens, chosen by chance, to a handful of payers."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.items: list[str] = []
        self.payments: dict[str, int] = {}
        self.returns: list[str] = []
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        kind = self.chance.choice(
            ["expect", "pay", "pay", "run", "run", "accept", "accept", "back", "back", "link", "link", "link"]
        )
        if await getattr(self, kind)():
            self.done[kind] += 1

    async def expect(self) -> bool:
        amount = self.chance.choice(["100.00", "60.00"])
        number = len(self.items)
        self.items.append(await self.world.expect(amount, reference=f"INV-2026-{number:03}", externalId=f"E{number}"))
        return True

    async def pay(self) -> bool:
        if not self.items:
            return False
        minor, number = self.chance.choice([10_000, 6_000, 4_000]), len(self.payments)
        named = [f"INV-2026-{n:03}" for n in self.chance.sample(range(len(self.items)), min(2, len(self.items)))]
        quoted = " ".join(named[: self.chance.choice([1, 1, 2])])
        made = await self.world.receive(
            f"{minor / 100:.2f}", remittance=quoted, endToEndId=f"E2E-{number:04}", externalId=f"P{number}"
        )
        self.payments[made] = minor
        return True

    async def run(self) -> bool:
        await self.world.run()
        return True

    async def accept(self) -> bool:
        proposals = await self.world.matches(status="proposed")
        if not proposals:
            return False
        answer = await self.world.accept(self.chance.choice(proposals))
        assert answer.status_code in {200, 409}, answer.text
        return answer.status_code == 200

    async def back(self) -> bool:
        if not self.payments:
            return False
        payment, minor = self.chance.choice(list(self.payments.items()))
        number = list(self.payments).index(payment)
        part = self.chance.choice([minor, minor, minor // 2, 700])
        fields = {**RETURN, "endToEndId": f"E2E-{number:04}", "externalId": f"R{len(self.returns)}"}
        self.returns.append(await self.world.receive(f"{part / 100:.2f}", **fields))
        return True

    async def link(self) -> bool:
        if not self.payments or not self.returns:
            return False
        return (await self.link_to(self.chance.choice(list(self.payments)))).status_code == 200

    async def link_to(self, payment: str) -> httpx2.Response:
        body: dict[str, Any] = {"incomingTransactionId": payment}
        if self.chance.random() < 0.5:
            body["amountMinor"] = self.chance.randint(1, 3_000)
        if self.chance.random() < 0.3:
            body["expectedTransactionId"] = self.chance.choice(self.items)
        path = f"/incoming-transactions/{self.chance.choice(self.returns)}/link-reversal"
        answer = await self.world.tenant.post(path, body)
        assert answer.status_code in {200, 409, 422}, answer.text
        return answer


async def adds_up(world: World, addresses: EmbeddedDatabase) -> None:
    assert await violations(addresses.superuser_url, world.scope.schema_name) == {}
    for path in ("/expected-transactions", "/incoming-transactions"):
        found = (await world.tenant.get(path, params={"limit": 200})).json()["data"]
        taken: Counter[str] = Counter()
        for row in found:
            for link in row.get("reversalOf", []):
                taken[row["id"]] += link["amountMinor"]
                taken[link["incomingTransactionId"]] += link["amountMinor"]
        for row in found:
            told = row.get("settledBeforeMinor", 0) + row["matchedAmountMinor"] + row["openAmountMinor"]
            assert told + taken[row["id"]] == row["amountMinor"], row


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_happens_it_adds_up(world: World, addresses: EmbeddedDatabase, seed: int) -> None:
    story = Story(world, seed)
    for _ in range(2):
        await story.expect()
        await story.pay()
    await story.run()
    for _ in range(STEPS):
        await story.step()
        await adds_up(world, addresses)
    assert story.done["accept"], story.done
    [linked] = await world.sql("SELECT count(*) AS n FROM reversal_link")
    assert linked["n"] > 0, story.done


async def test_runs_people_who_accept_and_people_who_link_at_once(world: World, addresses: EmbeddedDatabase) -> None:
    story = Story(world, 7)
    for _ in range(6):
        await story.expect()
    for round_ in range(6):
        for _ in range(4):
            await story.pay()
            await story.back()
        await world.run()
        before = story.chance.getstate()
        await asyncio.gather(
            world.tenant.post("/matches/match", {"wait": 60}),
            *(story.accept() for _ in range(6)),
            *(story.link_to(payment) for payment in list(story.payments)[-6:]),
        )
        assert story.chance.getstate() != before, round_
        await adds_up(world, addresses)
    [linked] = await world.sql("SELECT count(*) AS n FROM reversal_link")
    assert linked["n"] > 6


async def test_the_database_refuses_what_the_service_would_let_through(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without looking at what is left, the constraint decides: nothing is taken back twice."""
    payment = await world.receive("10.00")
    backs = [await world.receive("10.00", **RETURN) for _ in range(2)]
    taken = ReturnLedger.take

    def careless(self: ReturnLedger, wanted: Wanted) -> Any:
        self._left[wanted.payment_id] = wanted.amount_minor
        return taken(self, wanted)

    monkeypatch.setattr(ReturnLedger, "take", careless)
    path = "/incoming-transactions/{}/link-reversal"
    answers = [await world.tenant.post(path.format(back), {"incomingTransactionId": payment}) for back in backs]
    assert [a.status_code for a in answers] == [200, AlreadyMatchedError.status]
    assert await world.sql("SELECT sum(amount_minor)::bigint AS n FROM reversal_link") == [{"n": 1_000}]


async def test_more_links_than_one_transaction_makes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returns, "LINKS_PER_COMMIT_MAX", 2)
    assert LINKS_PER_COMMIT_MAX > 2
    for number in range(5):
        await world.receive("10.00", endToEndId=f"E2E-{number:04}")
    await world.run()
    for number in range(5):
        await world.receive("10.00", **RETURN, endToEndId=f"E2E-{number:04}")
    await world.run()
    rows = await world.sql("SELECT change_id, count(*) AS n FROM reversal_link GROUP BY 1 ORDER BY n")
    assert [row["n"] for row in rows] == [1, 2, 2]


async def test_an_amount_of_many_is_not_looked_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returns, "CANDIDATES_MAX", 3)
    for number in range(3):
        await world.receive("10.00", counterpartyName=f"Payer {number}", endToEndId=f"E2E-{number:04}")
    await world.run()
    party = await world.receive("10.00", **RETURN, counterpartyName="Payer 2")
    named = await world.receive("10.00", **RETURN, endToEndId="E2E-0001")
    await world.run()
    assert (await world.incoming(party))["reasonCode"] == "budget_exhausted"
    assert (await world.incoming(named))["status"] == "linked"


@pytest.mark.parametrize(
    ("also", "status"),
    [
        pytest.param({}, "linked", id="alone"),
        pytest.param({"remittance": "INV-2026-0041 again"}, "unmatched", id="beside one that is open"),
        pytest.param({"remittance": "INV-2026-0041", "amount": "11.00"}, "linked", id="beside another amount"),
        pytest.param({"remittance": "INV-2026-0041", "counterpartyName": "Nagel AG"}, "linked", id="beside another's"),
    ],
)
async def test_of_an_amount_of_many_the_reference_of_an_item_names_its_payment(
    world: World, monkeypatch: pytest.MonkeyPatch, also: dict[str, str], status: str
) -> None:
    monkeypatch.setattr(returns, "CANDIDATES_MAX", 3)
    bolt = {"counterpartyName": "Bolt GmbH"}
    await world.set(autoAccept=True)
    item = await world.expect("10.00", reference="INV-2026-0041", **bolt)
    payment = await world.receive("10.00", remittance="INV-2026-0041 CONTRACT-77", **bolt)
    for number in range(4):
        text = f"INV-2026-{1000 + number} CONTRACT-77"
        await world.receive("10.00", bookingDate="2026-03-14", remittance=text, **bolt)
    await world.run()
    assert (await world.expected(item))["status"] == "matched"
    if also:
        await world.receive(**{"amount": "10.00", **bolt, **also})
        await world.run()
    named = await world.receive("10.00", **RETURN, remittance="RETURN INV-2026-0041", **bolt)
    contract = await world.receive("10.00", **RETURN, remittance="RETURN CONTRACT-77", **bolt)
    await world.run()
    line = await world.incoming(named)
    assert line["status"] == status
    assert (await world.incoming(contract))["reasonCode"] == "budget_exhausted"
    assert [link["incomingTransactionId"] for link in line["reversalOf"]] == [payment][: status == "linked"]
    assert (await world.expected(item))["status"] == ("open" if status == "linked" else "matched")


@pytest.mark.parametrize(("many", "status"), [(3, "linked"), (4, "unmatched")])
async def test_a_reference_of_too_many_items_names_no_payment(
    world: World, monkeypatch: pytest.MonkeyPatch, many: int, status: str
) -> None:
    monkeypatch.setattr(returns, "CANDIDATES_MAX", 3)
    await world.set(autoAccept=True, autoAcceptMinConfidence="high")
    said = {"remittance": "RENT-2026-03", "bookingDate": "2026-03-12"}
    payers = [f"Payer {name} GmbH" for name in ("Bolt", "Nagel", "Quarz", "Ulmer")]
    items = [await world.expect("10.00", reference="RENT-2026-03", counterpartyName=name) for name in payers[:many]]
    for name in payers:
        await world.receive("10.00", counterpartyName=name, **said)
    await world.run()
    assert {(await world.expected(item))["status"] for item in items} == {"matched"}
    back = await world.receive("10.00", **{**said, **RETURN}, counterpartyName=payers[0])
    await world.run()
    assert (await world.incoming(back))["status"] == status


@pytest.mark.parametrize("payers", ["one", "many"])
async def test_what_many_items_ask_for_is_not_compared_with_all_that_was_taken_back(
    world: World, addresses: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch, payers: str
) -> None:
    many = 150
    names = ["Bolt GmbH" if payers == "one" else f"Payer {at} GmbH" for at in range(many)]
    lines = [
        {"amount": "10.00", "currency": "EUR", "bookingDate": "2026-03-12", "counterpartyName": name}
        | {"endToEndId": f"E2E-2026-{at:04}"}
        for at, name in enumerate(names)
    ]
    await world.upload([{**line, "direction": "credit"} for line in lines])
    await world.run()
    await world.upload([{**line, **RETURN} for line in lines])
    await world.run()
    items = [
        {"amount": amount, "currency": "EUR", "direction": "credit", "dueDate": "2026-03-10"}
        | {"counterpartyName": f"Other {at}" if payers == "many" else "Bolt GmbH"}
        for at in range(500)
        for amount in ("10.00", f"{100 + at}.00")
    ]
    for tenant in (world.bystander, world.tenant):
        await tenant.post("/expected-transactions/bulk", {"items": items})
    with psycopg.connect(addresses.superuser_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    async with world.service.factory.context.database.tenant(world.scope, readonly=True) as connection:
        store = ReturnStore(connection)
        early = await store.early(limit=many)
        keys = [key for row in early for key in return_releases._keys(row)]
        assert len(early) == many
        with explained(monkeypatch, storage_returns) as plans:
            await store.newly_named(keys)
        assert handled(plans[0]) < 20 * (len(keys) + len(items)) < many * len(items) / 4
        assert len(await store.newly_named(keys)) == (many if payers == "one" else 0)


_MANY = """
    INSERT INTO incoming_transaction (id, amount_minor, created_at, updated_at, change_id, currency, direction,
        booking_on, identity, fingerprint, end_to_end_id)
    SELECT gen_random_uuid(), n % 4000, now(), now(), gen_random_uuid(), 'EUR', 'credit', '2026-03-10',
        decode(md5(n::text), 'hex'), decode(md5(n::text), 'hex'), 'E2E-' || n
    FROM generate_series(1, 8000) n
"""
_MANY_OPEN = f"""
    INSERT INTO incoming_open (transaction_id, open_minor, total_minor, tie_key, direction, currency, booking_day,
        reference_keys, reversal, keys_version)
    SELECT id, 1, 1, 0, 1, 'EUR', 20000, '{{}}', amount_minor = 7, {KEYS_VERSION} FROM incoming_transaction
"""  # noqa: S608 - our own number


async def test_the_returns_of_a_run_are_found_through_indexes(world: World, addresses: EmbeddedDatabase) -> None:
    """Of many lines, a run reads the returns and what they name, and scans nothing."""
    plans: list[str] = []
    await world.sql(_MANY)
    await world.sql(_MANY_OPEN)
    [line] = await world.sql("SELECT id FROM incoming_transaction WHERE end_to_end_id = 'E2E-7'")
    async with await psycopg.AsyncConnection.connect(addresses.superuser_url) as connection:
        await connection.execute("SELECT set_config('search_path', %s, false)", (world.scope.schema_name,))
        await connection.execute("ANALYZE incoming_transaction, incoming_open")

        class Explained:
            async def execute(self, query: str, parameters: Any = None, **_: Any) -> Explained:
                cursor = await connection.execute(f"EXPLAIN {query}".encode(), parameters)
                plans.append("\n".join([row[0] for row in await cursor.fetchall()]))
                return self

            async def fetchall(self) -> list[Any]:
                return []

        await ReturnStore(Explained()).open_returns(None, limit=10)  # type: ignore[arg-type]
        store = ReturnCandidateStore(Explained())  # type: ignore[arg-type]
        await store.payments([line["id"]], limit=10)
        await store.crowded([line["id"]], limit=10)
    for plan, indexes in zip(plans, _INDEXES, strict=True):
        assert not [row for row in plan.splitlines() if "Seq Scan on incoming_" in row], plan
        for index in indexes:
            assert index in plan, plan


_INDEXES = [
    ["incoming_open_reversal"],
    ["incoming_transaction_by_end_to_end", "incoming_transaction_by_amount"],
    ["incoming_transaction_by_amount"],
]
"""What each of the statements of a run goes through, in their order."""

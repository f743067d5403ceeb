"""What matches say of names: learned with who said so, taken back when they are, forgotten, and told as of any day."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from payrec.constants import LESSONS_MAX
from payrec.storage.alias_lessons import AliasLessonStore, Lesson
from payrec.storage.aliases import AliasStore
from payrec.storage.changes import ChangeStore
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

ALIASES, REJECTIONS = "/matching/aliases", "/matching/rejections"
ADA, BABBAGE, ENGINES = "Ada Lovelace", "Charles Babbage", "Analytical Engines"


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


async def by_hand(world: World, expected: str, incoming: str, amount_minor: int) -> dict[str, Any]:
    """Match an item and a line as a person does."""
    leg = {"expectedTransactionId": expected, "incomingTransactionId": incoming, "amountMinor": amount_minor}
    answer = await world.tenant.post("/matches", {"legs": [leg], "reason": "known to us"})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def taught(world: World, amount: int, name: str = ADA) -> dict[str, Any]:
    """Match an item of a counterparty with a line of ``ENGINES`` by hand."""
    expected = await world.expect(f"{amount}.00", counterpartyName=name)
    incoming = await world.receive(f"{amount}.00", counterpartyName=ENGINES, externalId=f"by hand {amount}")
    return await by_hand(world, expected, incoming, amount * 100)


async def aliases(world: World) -> list[dict[str, Any]]:
    answer = await world.tenant.get(ALIASES)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def learned(world: World) -> list[tuple[str, str, int, int, int]]:
    """Have the next run learn, and return what the aliases are."""
    await world.run()
    return [
        (a["counterpartyName"], a["status"], a["confirmations"], a["disagreements"], a["rejections"])
        for a in await aliases(world)
    ]


async def decided(world: World, match: dict[str, Any], verb: str) -> None:
    answer = await world.tenant.post(f"/matches/{match['id']}/{verb}", {"reason": "looked at again"})
    assert answer.status_code == 200, answer.text


async def chosen(world: World, amount: int) -> str | None:
    """Have a line of ``ENGINES`` that would pay two items, and return whose item is proposed, if it is one alone."""
    items = {await world.expect(f"{amount}.00", counterpartyName=name): name for name in (ADA, BABBAGE)}
    line = await world.receive(f"{amount}.00", counterpartyName=ENGINES, externalId=f"chosen {amount}")
    await world.run()
    found = await world.matches(status="proposed", incomingTransactionId=line)
    told = [m for m in found if m["uniqueness"]["status"] != "ambiguous"]
    return items[told[0]["legs"][0]["expectedTransactionId"]] if len(told) == 1 else None


async def test_a_name_that_says_there_is_none_is_taught_to_mean_nobody(world: World) -> None:
    """It was told to be used from the next run on."""
    expected = await world.expect("10.00", counterpartyName=ADA)
    await by_hand(world, expected, await world.receive("10.00", counterpartyName="NOTPROVIDED"), 1_000)
    assert await learned(world) == []


async def test_what_is_matched_by_hand_is_known_next_time_until_it_is_forgotten(world: World) -> None:
    assert await chosen(world, 10) is None
    match = await taught(world, 20)
    # It is learned when the next run begins, and that run profits from it.
    assert await aliases(world) == []
    assert await chosen(world, 30) == ADA
    [alias] = await aliases(world)
    assert (alias["statementName"], alias["counterpartyName"], alias["status"]) == (ENGINES, ADA, "active")
    assert alias["firstTaughtAt"] == alias["lastTaughtAt"] == match["decidedAt"]
    [lesson] = alias["lessons"]
    assert (lesson["matchId"], lesson["taughtBy"], lesson["agrees"]) == (match["id"], match["decidedBy"], True)
    assert f'"{ENGINES}" means "{ADA}": one match accepted says so' in alias["explanation"]
    assert (await world.bystander.get(ALIASES)).json()["data"] == []

    assert (await world.tenant.request("DELETE", f"{ALIASES}/{alias['id']}")).status_code == 204
    assert await chosen(world, 40) is None
    await taught(world, 50)
    assert await learned(world) == []
    audit = await world.sql("SELECT action FROM audit_record WHERE action LIKE 'alias.%' ORDER BY change_id")
    assert [row["action"] for row in audit] == ["alias.learned", "alias.forgotten"]


async def test_a_reversed_match_takes_its_lesson_back(world: World) -> None:
    first, second = await taught(world, 10), await taught(world, 20)
    assert await learned(world) == [(ADA, "active", 2, 0, 0)]
    await decided(world, first, "reverse")
    assert await learned(world) == [(ADA, "active", 1, 0, 0)]
    await decided(world, second, "reverse")
    assert await learned(world) == []
    assert await chosen(world, 30) is None
    await taught(world, 40)
    assert await learned(world) == [(ADA, "active", 1, 0, 0)]


async def test_two_counterparties_contradict_each_other_until_one_is_reversed(world: World) -> None:
    first = await taught(world, 10)
    await world.run()
    await taught(world, 20, BABBAGE)
    assert await learned(world) == [(ADA, "contradicted", 1, 1, 0)]
    [alias] = await aliases(world)
    assert "one match accepted for another counterparty. So it is not used." in alias["explanation"]
    assert {lesson["counterpartyName"] for lesson in alias["lessons"]} == {ADA, BABBAGE}
    await decided(world, first, "reverse")
    assert await learned(world) == [(BABBAGE, "active", 1, 0, 0)]


async def test_rejected_matches_count_against_an_alias(world: World) -> None:
    await taught(world, 10)
    await world.expect("20.00", counterpartyName=ADA)
    await world.receive("20.00", counterpartyName=ENGINES)
    await world.run()
    match = await world.proposal()
    await decided(world, match, "reject")
    assert await learned(world) == [(ADA, "contradicted", 1, 0, 1)]
    await taught(world, 30)
    assert await learned(world) == [(ADA, "active", 2, 0, 1)]
    # A rejection that is forgotten says nothing any more.
    assert (await world.tenant.request("DELETE", f"{REJECTIONS}/{match['id']}")).status_code == 204
    assert [(a["confirmations"], a["rejections"]) for a in await aliases(world)] == [(2, 0)]


async def test_what_the_engine_proposed_teaches_no_name_without_a_proof(world: World) -> None:
    await world.expect("10.00", counterpartyName=ADA, counterpartyAccount="ACCOUNT1")
    await world.receive("10.00", counterpartyName=ENGINES, counterpartyAccount="ACCOUNT1")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    assert await learned(world) == []
    await world.expect("20.00", counterpartyName=ADA, reference="INV-2026-001")
    await world.receive("20.00", counterpartyName=ENGINES, remittance="INV-2026-001")
    await world.run()
    assert (await world.accept(await world.proposal())).status_code == 200
    assert await learned(world) == [(ADA, "active", 1, 0, 0)]


@pytest.mark.parametrize(("ultimate", "teaches"), [(None, True), (ENGINES.upper(), True), ("Byron Estates", False)])
async def test_who_acts_for_another_one_is_not_known_by_that(
    world: World, ultimate: str | None, *, teaches: bool
) -> None:
    payer = {"counterpartyName": ENGINES, "ultimateCounterpartyName": ultimate}
    expected = await world.expect("10.00", counterpartyName=ADA)
    await by_hand(world, expected, await world.receive("10.00", **payer), 1_000)
    assert await learned(world) == ([(ADA, "active", 1, 0, 0)] if teaches else [])
    # Nor where the payment proves whose it is.
    await world.set(autoAccept=True)
    await world.expect("20.00", counterpartyName=ADA, reference="INV-2026-001")
    await world.receive("20.00", **payer, remittance="INV-2026-001")
    await world.run()
    [match] = await world.matches(status="accepted", sort="-createdAt", limit=1)
    assert match["decidedBy"].startswith("engine:")
    assert await learned(world) == ([(ADA, "active", 2, 0, 0)] if teaches else [])


async def test_more_decisions_than_are_looked_at_at_once_are_learned_by_later_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("payrec.services.learning.DECISIONS_READ_MAX", 2)
    for amount in (10, 20, 30):
        await taught(world, amount)
    assert await learned(world) == [(ADA, "active", 2, 0, 0)]
    assert await learned(world) == [(ADA, "active", 3, 0, 0)]
    assert await learned(world) == [(ADA, "active", 3, 0, 0)]


async def test_a_dry_run_learns_nothing(world: World) -> None:
    await taught(world, 10)
    await world.run(dryRun=True)
    assert await aliases(world) == []


async def test_rejections_are_listed_with_who_and_why_and_can_be_forgotten(world: World) -> None:
    await world.expect("10.00", counterpartyName=ADA, reference="INV-2026-001")
    await world.receive("10.00", counterpartyName=ADA, remittance="INV-2026-001")
    await world.run()
    match = await world.proposal()
    await decided(world, match, "reject")
    await world.run()
    assert await world.matches(status="proposed") == []
    [found] = (await world.tenant.get(REJECTIONS)).json()["data"]
    assert (await world.tenant.get(REJECTIONS, params={"status": "rejected"})).json()["data"] == [found]
    assert (await world.tenant.get(REJECTIONS, params={"status": "reversed"})).json()["data"] == []
    decision = await world.tenant.get(f"/matches/{match['id']}")
    assert found["id"] == match["id"]
    assert {name: found[name] for name in ("status", "decidedAt", "decidedBy")} == {
        name: decision.json()[name] for name in ("status", "decidedAt", "decidedBy")
    }
    assert (found["reason"], found["amount"], found["kind"], found["isOpen"]) == (
        "looked at again",
        "10.00",
        "one_to_one",
        True,
    )
    [leg] = found["legs"]
    assert leg["incomingTransactionId"] == match["legs"][0]["incomingTransactionId"]
    assert (await world.bystander.get(REJECTIONS)).json()["data"] == []

    path = f"{REJECTIONS}/{match['id']}"
    assert (await world.bystander.request("DELETE", path)).status_code == 404
    assert (await world.tenant.request("DELETE", f"{REJECTIONS}/nonsense")).status_code == 404
    for _ in range(2):
        assert (await world.tenant.request("DELETE", path)).status_code == 204
    assert (await world.tenant.get(REJECTIONS)).json()["data"] == []
    await world.run()
    again = await world.proposal()
    assert again["id"] != match["id"]
    # Only what was rejected or reversed can be forgotten.
    assert (await world.tenant.request("DELETE", f"{REJECTIONS}/{again['id']}")).status_code == 404
    audit = await world.sql("SELECT before FROM audit_record WHERE action = 'match_rejection.forgotten'")
    assert [row["before"]["reason"] for row in audit] == ["looked at again"]


# Any order of lessons ---------------------------------------------------------------------------------------------


class Book:
    """What a few names are known to mean, by the rule in plain words: beside the store, step by step."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - not a secret
        self.lessons: dict[UUID, tuple[int, int, bool]] = {}
        self.first: dict[int, int] = {}
        self.forgotten: set[int] = set()
        self.number = 0

    def id(self) -> UUID:
        self.number += 1
        return UUID(int=(0x0192 << 112) | (7 << 76) | (2 << 62) | self.chance.getrandbits(40) << 20 | self.number)

    def meant(self) -> dict[int, int]:
        """Return the names that mean one counterparty."""
        found = {}
        for name in {name for name, _, _ in self.lessons.values()} - self.forgotten:
            said = [(whom, agrees) for n, whom, agrees in self.lessons.values() if n == name]
            confirmed = {whom for whom, agrees in said if agrees}
            if len(confirmed) == 1:
                [whom] = confirmed
                if said.count((whom, True)) > said.count((whom, False)):
                    found[name] = whom
        return found


@pytest.mark.parametrize("seed", range(3))
async def test_aliases_are_what_the_lessons_that_stand_say_now_and_at_any_instant(world: World, seed: int) -> None:
    book, told = Book(seed), []
    scope, database = world.scope, world.service.factory.context.database
    for _ in range(40):
        change_id = book.id()
        async with database.tenant(scope) as connection:
            await _step(AliasLessonStore(connection), AliasStore(connection), book, change_id)
            await ChangeStore(connection).finish(
                change_id, environment_id=scope.environment_id, actor="test", request_id="test", records=[]
            )
        async with database.tenant(scope, readonly=True) as connection:
            assert await AliasStore(connection).active() == book.meant()
        [row] = await world.sql("SELECT at FROM change WHERE id = %s", change_id)
        told.append((row["at"], book.meant()))
    async with database.tenant(scope, readonly=True) as connection:
        for at, meant in told:
            assert await AliasStore(connection).active(as_of=at) == meant
        assert await AliasStore(connection).active(as_of=told[0][0] - timedelta(seconds=1)) == {}


async def _step(store: AliasLessonStore, names: AliasStore, book: Book, change_id: UUID) -> None:
    now = datetime.now(UTC)
    step = book.chance.random()
    if step < 0.65:
        lessons = []
        for _ in range(book.chance.randint(1, 3)):
            name = book.chance.randint(1, 4)
            agrees = name not in book.first or book.chance.random() < 0.7
            # A rejection counts for whom the alias means, and nobody else.
            whom = await _current(names, name) if not agrees else 10 * name + book.chance.randint(1, 2)
            lesson = Lesson(
                alias_id=book.id(), match_id=book.id(), statement_key=name, counterparty_key=whom,
                statement_name=f"name {name}", counterparty_name=f"whom {whom}", agrees=agrees, taught_at=now,
                taught_by="user:ada",
            )  # fmt: skip
            lessons.append(lesson)
            if name not in book.forgotten:
                book.first.setdefault(name, whom)
                book.lessons[lesson.match_id] = (name, whom, agrees)
        before = {lesson.match_id for lesson in lessons}
        await store.teach(lessons, change_id=change_id, at=now, names_max=100, lessons_max=LESSONS_MAX)
        # The whole lesson again changes nothing.
        again = await store.teach(lessons, change_id=change_id, at=now, names_max=100, lessons_max=LESSONS_MAX)
        assert again == 0, before
    elif step < 0.9 and book.lessons:
        some = book.chance.sample(sorted(book.lessons), k=min(len(book.lessons), 2))
        await store.take_back(some, change_id=change_id, at=now)
        for match_id in some:
            if book.lessons[match_id][0] not in book.forgotten:
                del book.lessons[match_id]
    else:
        name = book.chance.randint(1, 4)
        row = await _row(names, name)
        if row is not None and book.chance.random() < 0.3:
            await names.forget(row, change_id=change_id, at=now)
            book.forgotten.add(name)


async def _row(names: AliasStore, name: int) -> UUID | None:
    rows = await names._connection.execute("SELECT id FROM alias WHERE statement_key = %s", (name,))
    row = await rows.fetchone()
    return None if row is None else row["id"]


async def _current(names: AliasStore, name: int) -> int:
    query = "SELECT counterparty_key FROM alias WHERE statement_key = %s"
    row = await (await names._connection.execute(query, (name,))).fetchone()
    return 10 * name if row is None else int(row["counterparty_key"])

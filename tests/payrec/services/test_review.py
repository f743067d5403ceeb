"""The review queue: the most money first, page by page, whatever is decided meanwhile, and nobody else's."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest

from payrec.domain.caller import Caller
from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.errors import NotFoundError
from payrec.services import review
from payrec.services.review import Direction, Queue, QueueQuery, ReviewService
from payrec.storage.partitions import ensure_partitions
from support.matching_world import World, matching_world
from support.service import Service, Tenant

pytestmark = pytest.mark.anyio

SEED = """
    INSERT INTO match (id, amount_minor, score, status, kind, confidence, uniqueness, currency, created_by, levels,
        sampled, created_at, updated_at)
    SELECT gen_random_uuid(), minor, score, status, 'one_to_one', confidence, 'unique', currency, 'engine:test', '{}',
        sampled, now(), now()
    FROM unnest(%s::bigint[], %s::int[], %s::text[], %s::text[], %s::text[], %s::bool[])
        AS t (minor, score, status, confidence, currency, sampled)
    RETURNING id, amount_minor, score, currency, confidence, sampled, status
"""
WORTH = {"EUR": 1.0, "USD": 0.5, "SEK": 0.0}
"""Of a unit in euros; there is no rate of the last."""


@pytest.fixture
async def world(service: Service, acme: Tenant, globex: Tenant) -> AsyncIterator[World]:
    async with matching_world(service, acme, globex) as made:
        yield made


@pytest.fixture
def reviews(world: World, monkeypatch: pytest.MonkeyPatch) -> ReviewService:
    monkeypatch.setattr(review, "PAGE_MATCHES", 7)
    return world.service.factory.create_review_service()


def caller_of(scope: TenantScope) -> Caller:
    return Caller(principal=Principal(kind="system", name="test"), request_id="test", scope=scope)


async def seed(world: World, count: int, *, statuses: tuple[str, ...] = ("proposed",)) -> list[dict[str, Any]]:
    """Store matches of few amounts and scores, so that many are equal, and return the waiting ones in their order."""
    chosen = random.Random(count)  # noqa: S311 - the same each time, no secret
    async with world.service.factory.context.database.tenant(world.scope) as connection:
        await ensure_partitions(connection)
    columns: list[list[Any]] = [
        [chosen.choice([1, 2, 4, 100, 10**14]) for _ in range(count)],
        [chosen.randint(-2, 2) for _ in range(count)],
        [chosen.choice(statuses) for _ in range(count)],
        [chosen.choice(["high", "low"]) for _ in range(count)],
        [chosen.choice(list(WORTH)) for _ in range(count)],
        [chosen.random() < 0.2 for _ in range(count)],
    ]
    rows = await world.sql(SEED, *columns)
    return sorted((row for row in rows if row["status"] == "proposed"), key=place_of)


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    worth = WORTH[row["currency"]]
    return worth == 0, -row["amount_minor"] * (worth or 1), -row["score"], -row["id"].int


async def rates(world: World) -> None:
    today = world.service.factory.context.clock.now().date().isoformat()
    await world.rate("EUR", "USD", "2", today)


async def pages(reviews: ReviewService, world: World, **asked: Any) -> list[dict[str, Any]]:
    """Return all that the queue has, page by page."""
    found: list[dict[str, Any]] = []
    queue = await reviews.queue(caller_of(world.scope), QueueQuery(**asked))
    while True:
        found += queue.rows
        assert len(queue.rows) <= review.PAGE_MATCHES
        if not queue.has_more:
            return found
        last = str(queue.rows[-1]["id"])
        queue = await reviews.queue(caller_of(world.scope), QueueQuery(**asked, match_id=last, direction="after"))


def ids(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["id"] for row in rows]


async def test_the_queue_is_told_page_by_page_in_the_order_of_the_money_at_stake(
    world: World, reviews: ReviewService
) -> None:
    await rates(world)
    waiting = await seed(world, 120, statuses=("proposed", "proposed", "accepted", "rejected", "pending_approval"))
    assert ids(await pages(reviews, world)) == ids(waiting)
    for currency in WORTH:
        of_it = [row for row in waiting if row["currency"] == currency]
        assert ids(await pages(reviews, world, currency=currency)) == ids(of_it)
    sure = [row for row in waiting if row["confidence"] == "high" and not row["sampled"]]
    assert ids(await pages(reviews, world, confidence="high")) == ids(sure)
    held = await pages(reviews, world, status="pending_approval")
    assert {row["status"] for row in held} == {"pending_approval"}
    queue = await reviews.queue(caller_of(world.scope), QueueQuery())
    assert (queue.count, queue.currencies, queue.unrated) == (len(waiting), ["EUR", "SEK", "USD"], ["SEK"])


async def test_another_tenant_has_a_queue_of_his_own(world: World, reviews: ReviewService) -> None:
    [match, *_] = await seed(world, 3)
    theirs = caller_of(world.bystander_scope)
    assert await reviews.queue(theirs, QueueQuery()) == Queue(
        rows=[], has_more=False, currencies=[], unrated=[], count=0
    )
    for direction in get_args(Direction):
        with pytest.raises(NotFoundError):
            await reviews.queue(theirs, QueueQuery(match_id=str(match["id"]), direction=direction))
    with pytest.raises(NotFoundError):
        await reviews.item(theirs, str(match["id"]))


async def test_every_place_has_the_rest_behind_it_and_before_it(world: World, reviews: ReviewService) -> None:
    await rates(world)
    waiting = await seed(world, 40)
    for at, row in enumerate(waiting):
        query = QueueQuery(match_id=str(row["id"]))
        here = await reviews.queue(caller_of(world.scope), query)
        assert ids(list(here.rows)) == ids(waiting[at : at + 7])
        query = QueueQuery(match_id=str(row["id"]), direction="before")
        before = await reviews.queue(caller_of(world.scope), query)
        assert ids(list(before.rows)) == ids(waiting[max(0, at - 7) : at])
        assert before.has_more is (at > 7)


async def test_what_is_decided_meanwhile_makes_nothing_come_twice_or_never(
    world: World, reviews: ReviewService
) -> None:
    await rates(world)
    waiting = await seed(world, 60)
    seen: list[Any] = []
    last = None
    while True:
        query = QueueQuery(match_id=last, direction="after" if last else "from")
        queue = await reviews.queue(caller_of(world.scope), query)
        seen += ids(list(queue.rows))
        if not queue.has_more:
            break
        last = str(queue.rows[-1]["id"])
        # Somebody decides all that was on the page, the last one with it, and something that is still to come.
        gone = [*ids(list(queue.rows)), *ids(waiting)[len(seen) + 3 : len(seen) + 4]]
        waiting = [row for row in waiting if row["id"] in seen or row["id"] not in gone]
        await world.sql("UPDATE match SET status = 'rejected' WHERE id = ANY(%s)", gone)
    assert seen == ids(waiting)


async def test_counting_ends_where_nobody_counts_any_more(
    world: World, reviews: ReviewService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(review, "COUNTED_MAX", 5)
    await seed(world, 20)
    assert (await reviews.queue(caller_of(world.scope), QueueQuery())).count == 6


async def test_an_item_has_both_sides_of_its_match(world: World, reviews: ReviewService) -> None:
    item = await world.expect("100.00", reference="INV-2026-00001", counterpartyName="Miller Ltd")
    line = await world.receive("100.00", remittance="Payment INV-2026-00001", counterpartyName="MILLER LTD")
    await world.run()
    match = await world.proposal()
    found = await reviews.item(caller_of(world.scope), match["id"])
    assert found.match.model_dump(mode="json", by_alias=True)["id"] == match["id"]
    assert [(str(one.id), one.remittance) for one in found.lines] == [(line, "Payment INV-2026-00001")]
    assert [(str(one.id), one.reference) for one in found.items] == [(item, "INV-2026-00001")]
    assert (found.line_count, found.item_count) == (1, 1)
    [row] = (await reviews.queue(caller_of(world.scope), QueueQuery())).rows
    assert (row["name"], row["reference"], row["withheld"]) == ("MILLER LTD", "INV-2026-00001", False)

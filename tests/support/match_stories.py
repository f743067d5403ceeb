"""What is expected and what moves, so that a run proposes one match of a kind of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from support.matching_world import World


async def pair(world: World) -> None:
    names = {"counterpartyName": "Bolt GmbH", "counterpartyAccount": "DE89370400440532013000"}
    await world.expect(reference="INV-2026-001", endToEndId="E2E-4711", **names)
    await world.receive(remittance="INV-2026-001", endToEndId="E2E-4711", **names)


async def part(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    await world.receive("60.00", remittance="INV-2026-001")


async def too_much(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001", expectedFrom="2026-02-01", expectedTo="2026-02-02")
    await world.receive("160.00", remittance="INV-2026-001")


async def by_name(world: World) -> None:
    await world.expect(counterpartyName="Bolt GmbH", dueDate=None)
    await world.receive(counterpartyName="BOLT", status="pending")


async def alike(world: World) -> None:
    for at in range(2):
        await world.expect(counterpartyName="Bolt GmbH", externalId=f"E{at}")
    await world.receive(counterpartyName="BOLT")


async def amount_alone(world: World) -> None:
    await world.expect()
    await world.receive()


async def by_key(world: World) -> None:
    for at in range(3):
        await world.expect("10.00", groupKey="PO-2026-7", externalId=f"B{at}")
    await world.receive("30.00", remittance="Payout PO-2026-7", counterpartyName="Collector")


async def by_key_net(world: World) -> None:
    for at, (amount, direction) in enumerate((("60.00", "credit"), ("45.00", "credit"), ("15.00", "debit"))):
        await world.expect(amount, groupKey="PO-2026-8", externalId=f"N{at}", direction=direction)
    await world.receive("87.40", remittance="Payout PO-2026-8", counterpartyName="Collector")


async def by_references(world: World) -> None:
    for at, amount in enumerate(("100.00", "120.00", "80.00")):
        await world.expect(amount, reference=f"INV-2026-{at}", counterpartyName="Bolt GmbH")
    await world.receive("300.00", remittance="INV-2026-0, INV-2026-1, INV-2026-2", counterpartyName="Other")


async def first_quoted(world: World, paid: str, *amounts: str) -> None:
    for at, amount in enumerate(amounts, 1):
        await world.expect(amount, reference=f"INV-2026-{at}", counterpartyName="Bolt")
    await world.receive(paid, remittance="INV-2026-1", counterpartyName="Bolt")


async def by_references_and_one(world: World) -> None:
    await first_quoted(world, "220.00", "100.00", "120.00")


async def by_references_and_more(world: World) -> None:
    await first_quoted(world, "352.48", "100.50", "201.75", "50.23")


async def in_terms(world: World) -> None:
    for at, (amount, asked) in enumerate((("100.00", 9_800), ("120.00", 11_760))):
        terms = [{"amountMinor": asked, "until": "2026-12-31"}]
        await world.expect(amount, reference=f"INV-2026-{at}", terms=terms, counterpartyName="Bolt GmbH")
    await world.receive("215.60", remittance="INV-2026-0, INV-2026-1", counterpartyName="Bolt GmbH")


async def mistaken(world: World) -> None:
    for at, name in enumerate(("Ada", "Bolt GmbH")):
        await world.expect(reference=f"INV-2026-{at}", counterpartyName=name)
    await world.receive(remittance="INV-2026-0", counterpartyName="Bolt GmbH")


async def elsewhere(world: World) -> None:
    await world.expect(reference="INV-2026-0", counterpartyName="Bolt GmbH", currency="USD")
    await world.expect(reference="INV-2026-1", counterpartyName="Bolt GmbH")
    await world.receive(remittance="INV-2026-0", counterpartyName="Bolt GmbH")


async def by_some_references(world: World) -> None:
    for at, amount in enumerate(("100.00", "120.00", "80.00")):
        await world.expect(amount, reference=f"INV-2026-{at}")
    await world.receive("220.00", remittance="INV-2026-0, INV-2026-1, INV-2026-2")


async def by_quotes(world: World) -> None:
    for reference, amount in (("INV-2026-1", "100.00"), ("3675", "120.00")):
        await world.expect(amount, reference=reference, counterpartyName="Bolt")
    await world.receive("220.00", remittance="INV-2026-1 + 3675", counterpartyName="Bolt")


async def in_series(world: World) -> None:
    for at, amount in enumerate(("100.50", "201.75", "50.23"), 1):
        await world.expect(amount, reference=f"INV-2026-140{at}", counterpartyName="Bolt")
    await world.receive("352.48", remittance="INV-2026-1401/02/03")


async def by_instalments(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    for name, amount in (("a", "40.00"), ("b", "60.00")):
        await world.receive(amount, remittance=f"INV-2026-001 {name}", externalId=name)


async def by_some_instalments(world: World) -> None:
    await world.expect("100.00", reference="INV-2026-001")
    for name, amount in (("a", "40.00"), ("b", "60.00"), ("c", "70.00")):
        await world.receive(amount, remittance=f"INV-2026-001 {name}", externalId=name)


async def similar(world: World) -> None:
    await world.expect(counterpartyName="Hartmann Maschinenbau GmbH")
    await world.receive(counterpartyName="HARTMAN MASCHINENBAU")


async def on_behalf(world: World) -> None:
    await world.expect(counterpartyName="Bolt GmbH")
    await world.receive(counterpartyName="Holding AG", ultimateCounterpartyName="BOLT")


async def in_text(world: World) -> None:
    await world.expect(counterpartyName="Bolt Werke GmbH")
    await world.receive(remittance="ACH CREDIT BOLT WERKE 091000019")


async def by_run(world: World) -> None:
    for at, amount in enumerate(("110.10", "223.40", "87.35", "141.07"), 1):
        await world.expect(amount, dueDate=f"2026-03-0{at}", counterpartyName="Bolt GmbH", externalId=f"E{at}")
    await world.receive("310.75", counterpartyName="Bolt GmbH")


PAIRS: Final = (pair, part, too_much, by_name, similar, on_behalf, in_text, alike, amount_alone, mistaken, elsewhere)
GROUPS: Final = (
    by_key,
    by_key_net,
    by_references,
    in_terms,
    by_some_references,
    by_quotes,
    in_series,
    by_instalments,
    by_some_instalments,
)
Story = Callable[[World], Awaitable[None]]

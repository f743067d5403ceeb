"""Small worlds in which every stage of matching has something to do, for properties that must hold of all of them.

A world is a few stories told over the same three payers: each adds items and lines that belong together in one way, and
by sharing payers, amounts and days the stories are rivals of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from hypothesis import strategies as st

from support.matching_frames import Item, Line

NAMES: Final = ("Zangra Handel", "Quentlin Maschinenbau", "Obrist Feinmechanik")
SPELT: Final = ("Znagra Handel", "Quentlin Maschinenba", "Obrist Feinmech")
"""The same, as banks and payers write them."""

AMOUNTS: Final = (100_003, 100_003, 250_019, 70_001, 33_331)


@dataclass
class World:
    """Items and lines, and what draws the next choice."""

    draw: st.DrawFn
    items: list[Item] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def any_of(self, *choices: Any) -> Any:
        """Draw one of the choices."""
        return self.draw(st.sampled_from(choices))

    def amount(self) -> int:
        """Draw an amount, often one that others have."""
        return int(self.draw(st.sampled_from(AMOUNTS) | st.integers(20_000, 900_000)))

    def item(self, payer: int, amount: int, **more: Any) -> Item:
        """Add an item of a payer."""
        number = len(self.items)
        found = Item(
            f"e{number}",
            amount=amount,
            due=more.pop("due", 20_600 + self.any_of(0, 0, 1, 10, 25)),
            reference=more.pop("reference", f"INV-{70_000 + number}"),
            name=NAMES[payer],
            iban=more.pop("iban", f"DE{payer}"),
            **more,
        )
        self.items.append(found)
        return found

    def line(self, payer: int | None, amount: int, **more: Any) -> Line:
        """Add a line of a payer, or of nobody in particular."""
        found = Line(
            f"x{len(self.lines)}",
            amount=amount,
            day=more.pop("day", 20_600 + self.any_of(0, 1, 2, 12, 30)),
            name=more.pop("name", None if payer is None else NAMES[payer]),
            iban=more.pop("iban", None if payer is None else f"DE{payer}"),
            pending=not self.any_of(1, 1, 1, 0),
            **more,
        )
        self.lines.append(found)
        return found


def _quoted(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    world.line(world.any_of(payer, None), item.amount, text=f"Invoice {item.reference} thanks")


def _nearly_quoted(world: World, payer: int) -> None:
    item = world.item(payer, world.amount(), reference=f"INV-2026-{400_000 + 7 * len(world.items):07d}")
    if world.any_of(1, 0):
        world.item(world.any_of(payer, 0, 1), item.amount, reference=f"{item.reference}{world.any_of(1, 2)}")
    text = world.any_of(item.reference[-6:], item.reference[:-1], f"{item.reference[:-3]}9{item.reference[-2:]}")
    world.line(world.any_of(payer, None), item.amount, text=f"Invoice {text} thanks")


def _by_id(world: World, payer: int) -> None:
    number = len(world.items)
    item = world.item(payer, world.amount(), end_to_end_id=f"ORDER-{number:05d}")
    world.line(payer, item.amount, end_to_end_id=item.end_to_end_id)


def _of_payer(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    world.line(payer, item.amount, iban=world.any_of(item.iban, None))


def _misspelt(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    world.line(None, item.amount, name=SPELT[payer])


def _on_behalf(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    other = world.any_of(None, (payer + 1) % len(NAMES))
    world.line(other, item.amount + world.any_of(0, 0, 0, 1), ultimate=NAMES[payer])


def _in_text(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    other = NAMES[(payer + world.any_of(0, 1)) % len(NAMES)]
    text = f"ACH CREDIT {NAMES[payer].upper()}{world.any_of('', ' SEPT', f' AND {other}')}"
    world.line(None, item.amount + world.any_of(0, 0, 0, 1), text=text)


def _by_amount(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    world.line(None, item.amount)


def _nearly(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    less = world.any_of(1, 500, item.amount // 5, -item.amount // 10)
    world.line(payer, item.amount - less, text=world.any_of(None, None, item.reference))


def _batch(world: World, payer: int) -> None:
    group = f"PO-2026-{len(world.items)}"
    items = [world.item(payer, world.amount(), group=group) for _ in range(world.any_of(1, 2, 3))]
    world.line(None, sum(item.amount for item in items) + world.any_of(0, 0, 0, 1), text=f"payout {group}")


def _references(world: World, payer: int) -> None:
    items = [world.item(payer, world.amount()) for _ in range(world.any_of(2, 3, 4))]
    paid = items[world.any_of(0, 0, 1) :]
    world.line(payer, sum(item.amount for item in paid), text=" ".join(str(item.reference) for item in items))


def _series(world: World, payer: int) -> None:
    number = 40_000 + 10 * len(world.items)
    items = [world.item(payer, world.amount(), reference=f"RE-{number + at}") for at in range(world.any_of(2, 3))]
    others = [str(item.reference)[-2:] for item in items[1:]]
    text = world.any_of(f"RE-{number}/{'/'.join(others)}", f"{number} to {number + len(items) - 1}")
    world.line(payer, sum(item.amount for item in items) + world.any_of(0, 0, 0, 1), text=text)


def _in_terms(world: World, payer: int) -> None:
    amounts = [world.amount() + 100 for _ in range(world.any_of(2, 3))]
    asked = [amount - amount // 50 for amount in amounts]
    number = 50_000 + 10 * len(world.items)
    items = [
        world.item(payer, amount, reference=f"INV-{number + at}", terms=((its, 20_600),))
        for at, (amount, its) in enumerate(zip(amounts, asked, strict=True))
    ]
    text = " ".join(str(item.reference) for item in items)
    world.line(payer, sum(asked) + world.any_of(0, 0, 1), text=text, day=20_590 + world.any_of(0, 0, 20))


def _mistaken(world: World, payer: int) -> None:
    other, amount, number = (payer + 1) % len(NAMES), world.amount(), 60_000 + 10 * len(world.items)
    theirs = world.item(other, amount, reference=f"INV-{number}")
    mine = world.item(payer, amount + world.any_of(0, 0, 5), reference=f"INV-{number + 5}")
    world.line(payer, amount, text=str(theirs.reference))
    if world.any_of(0, 1):
        world.line(other, amount, text=str(mine.reference))


def _instalments(world: World, payer: int) -> None:
    parts = [world.amount() for _ in range(world.any_of(2, 3))]
    item = world.item(payer, sum(parts) - world.any_of(0, 0, 0, parts[0]))
    for at, part in enumerate(parts):
        world.line(payer, part, text=f"{item.reference} part {at}", day=20_600 + 10 * at)


def _run(world: World, payer: int) -> None:
    items = [world.item(payer, world.amount() + 17 * at, due=20_560 + at) for at in range(world.any_of(3, 4, 6))]
    paid = items[: world.any_of(2, 3)]
    world.line(payer, sum(item.amount for item in paid), day=20_590)


def _equal_parts(world: World, payer: int) -> None:
    part, count = world.amount(), world.any_of(3, 4)
    world.item(payer, part * count)
    for at in range(count):
        world.line(payer, part, day=20_590 + 10 * at)


def _unnamed_parts(world: World, payer: int) -> None:
    """Some of the parts do not say who pays; now and then one more has the amount, or that of another payer."""
    part, count = world.amount(), world.any_of(2, 3, 4)
    world.item(payer, part * count)
    for at in range(count + world.any_of(0, 0, 1)):
        world.line(payer if at < (count + 1) // 2 else None, part, day=20_590 + 10 * at)


def _repeated(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    line = world.line(payer, item.amount, text=world.any_of(None, item.reference))
    world.lines.append(replace(line, id=f"x{len(world.lines)}", day=(line.day or 0) + world.any_of(0, 1, 5)))


def _taken_back(world: World, payer: int) -> None:
    item = world.item(payer, world.amount())
    world.line(payer, item.amount, text=item.reference, **{world.any_of("reversal", "duplicate"): True})


def _common(world: World, payer: int) -> None:
    item = world.item(payer, world.amount(), reference="RENT")
    world.line(payer, item.amount, text="RENT")


def _less_credits(world: World, payer: int) -> None:
    group = world.any_of(None, f"PO-2026-{len(world.items)}")
    items = [world.item(payer, world.amount(), group=group) for _ in range(world.any_of(1, 2))]
    notes = [
        world.item(
            payer, items[0].amount // share, direction=-1, reference=f"CN-{70_000 + len(world.items)}", group=group
        )
        for share in range(2, world.any_of(3, 3, 4))
    ]
    named = [str(item.reference) for item in (*items, *notes)][: world.any_of(None, None, len(items))]
    paid = sum(item.amount for item in items) - sum(note.amount for note in notes)
    text = " less ".join(named) if group is None else group
    world.line(payer, max(paid + world.any_of(0, 0, 0, 1), 1), text=text)


Story = Callable[[World, int], None]

STORIES: Final[Mapping[str, Story]] = MappingProxyType(
    {
        "quoted": _quoted,
        "nearly quoted": _nearly_quoted,
        "by id": _by_id,
        "of a payer": _of_payer,
        "misspelt": _misspelt,
        "on behalf": _on_behalf,
        "in text": _in_text,
        "by amount": _by_amount,
        "nearly": _nearly,
        "batch": _batch,
        "references": _references,
        "series": _series,
        "in terms": _in_terms,
        "mistaken": _mistaken,
        "instalments": _instalments,
        "run": _run,
        "equal parts": _equal_parts,
        "unnamed parts": _unnamed_parts,
        "repeated": _repeated,
        "taken back": _taken_back,
        "common": _common,
        "less credits": _less_credits,
    }
)


@st.composite
def worlds(draw: st.DrawFn, *, most: int = 5, stories: Sequence[str] = tuple(STORIES)) -> tuple[list[Item], list[Line]]:
    """Draw a world of a few stories."""
    world = World(draw)
    for name in draw(st.lists(st.sampled_from(stories), min_size=1, max_size=most)):
        STORIES[name](world, draw(st.integers(0, len(NAMES) - 1)))
    return world.items, world.lines

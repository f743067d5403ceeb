"""Cases of several items, or of several lines. Each makes one case and returns how many items it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from payrec.bench.maker import DAYS, Item, Maker, Payer
from payrec.bench.scenarios import Scenario, pay, usual
from payrec.bench.vocabularies import BATCHES, INSTALMENTS, MANY, SILENT

_CREDIT_MIN: Final = 100
"""Minor units of a credit note at the least."""


def _together(make: Maker, kind: str, items: Sequence[Item], payer: Payer, *, day: int, **said: str) -> None:
    """Add the line that pays all of the items."""
    said = {**usual(make, payer), **said}
    line = make.line(sum(i.amount for i in items), items[0].currency, day=day, **said)
    make.link(kind, items, [line], payer)


def _payout(make: Maker, kind: str, *, share: float) -> int:
    """Pay out many items less a share, which have the payout's id already; the line has it in its text or as its id."""
    named = f"PO-{make.number(10**7, 10**8 - 1)}"
    currency = make.payer().currency
    end = make.number(3, DAYS - 1)
    sold_to = [make.payer() for _ in range(min(int(make.dice.lognormvariate(2.0, 0.7)) + 2, 60))]
    items = [
        make.item(
            payer,
            amount=make.common_amount(currency) if make.happens(0.3) else None,
            currency=currency,
            due=make.number(end - 3, end),
            batch_id=named,
            payable=False,
        )
        for payer in sold_to
    ]
    by_id = make.happens(0.2)
    total = sum(i.amount for i in items)
    line = make.line(
        total - int(total * share),
        currency,
        day=end + make.number(1, 4),
        remittance=make.pick(SILENT) if by_id else make.pick(BATCHES).format(b=named),
        name="Pay Provider Ltd",
        end_to_end_id=named if by_id else "",
    )
    make.link(kind, items, [line], Payer(-1, "", "", currency, 0, is_person=False))
    return len(items)


def batch_id(make: Maker) -> int:
    """Pay out all that has been collected."""
    return _payout(make, "batch_id", share=0.0)


def batch_id_net(make: Maker) -> int:
    """Pay out what has been collected less what the payment provider keeps of it."""
    return _payout(make, "batch_id_net", share=make.number(8, 49) / 1_000)


def _of_a_week(make: Maker, fewest: int, most: int) -> tuple[Payer, int, list[Item]]:
    """Return a payer, the first day of a week, and items of that payer that are due in it."""
    payer = make.payer()
    due = make.number(0, DAYS - 8)
    count = make.number(fewest, most)
    return payer, due, [make.item(payer, due=due + make.number(0, 7), payable=False) for _ in range(count)]


def _listed(make: Maker, items: Sequence[Item]) -> str:
    return str(make.pick((", ", " ", " + ", "; ", "/ ")).join(i.reference for i in items))


def batch_references(make: Maker) -> int:
    """Pay several items at once and quote them all."""
    payer, due, items = _of_a_week(make, 2, 8)
    text = _listed(make, items)
    _together(
        make, "batch_references", items, payer, day=due + 7 + make.lateness(), remittance=make.pick(MANY).format(r=text)
    )
    return len(items)


def batch_references_cut(make: Maker) -> int:
    """Pay several items at once and quote all but the last: the text was too long, or the payer thought it enough."""
    payer, due, items = _of_a_week(make, 2, 4)
    text = _listed(make, items[:-1])
    remittance = make.pick(MANY).format(r=text)
    day = due + 7 + make.lateness()
    _together(make, "batch_references_cut", items, payer, day=day, remittance=remittance)
    return len(items)


def batch_references_short(make: Maker) -> int:
    """Pay items of one row of numbers: the first quoted in full, or without its letters, and then the last digits."""
    payer, due = make.payer(), make.number(0, DAYS - 8)
    references = make.references_in_a_row(make.number(2, 6))
    items = [make.item(payer, due=due, reference=reference, payable=False) for reference in references]
    first = references[0] if make.happens(0.7) else references[0].lstrip("INVRE-")
    last = next(size for size in range(2, 8) if references[0][:-size] == references[-1][:-size])
    others = [reference[-last:] for reference in references[1:]]
    listed = make.pick((", ", "/", " + ", " ", " und ")).join([first, *others])
    text = f"{first} {make.pick(('-', 'to', 'bis'))} {others[-1]}" if make.happens(0.25) else listed
    day = due + 7 + make.lateness()
    _together(make, "batch_references_short", items, payer, day=day, remittance=make.pick(MANY).format(r=text))
    return len(items)


def less_credit_notes(make: Maker) -> int:
    """Pay items less what the payer has been credited, and quote the credit notes as well, or the items alone."""
    payer, due, items = _of_a_week(make, 1, 3)
    most = sum(item.amount for item in items) // 2
    if most < _CREDIT_MIN:
        make.link("unpaid", items, [], payer)
        return len(items)
    credited = make.number(_CREDIT_MIN, most)
    notes = [make.item(payer, amount=credited, due=due, payable=True)]
    quoted = [*items, *notes] if make.happens(0.7) else items
    text = make.pick((", ", " ", " less ", "; ")).join(item.reference for item in quoted)
    text = make.pick(MANY).format(r=text)
    _together(make, "less_credit_notes", [*items, *notes], payer, day=due + 7 + make.lateness(), remittance=text)
    return len(items) + len(notes)


def _in_due_order(make: Maker, payer: Payer, count: int) -> list[Item]:
    """Return items of a new payer, one due after the other."""
    due = make.number(0, max(DAYS - 1 - 5 * count, 0))
    items = []
    for _ in range(count):
        items.append(make.item(payer, due=min(due, DAYS - 1), payable=False))
        due += make.number(1, 8)
    return items


def _of_one_payer(make: Maker, kind: str, *, chosen: str) -> int:
    """Pay some of a payer's items without saying which; the others stay open. Return how many items there are."""
    payer = make.new_payer()
    items = _in_due_order(make, payer, make.number(6, 14))
    first = make.number(0, 2)
    run = items[first : first + make.number(3, min(8, len(items) - first))]
    if chosen == "minus":
        run = items[first : first + min(8, len(items) - first)]
        left_out = set(make.dice.sample(range(1, len(run) - 1), make.number(1, 2)))
        paid = [item for at, item in enumerate(run) if at not in left_out]
    elif chosen == "any":
        paid = [items[at] for at in sorted(make.dice.sample(range(len(items)), make.number(2, 5)))]
    else:
        paid = run
    _together(make, kind, paid, payer, day=max(i.due for i in paid) + make.number(0, 6), remittance=make.pick(SILENT))
    for item in items:
        if item not in paid:
            make.link("unpaid", [item], [], payer)
    return len(items)


def batch_contiguous(make: Maker) -> int:
    """Pay a run of the payer's items in due order, without any reference."""
    return _of_one_payer(make, "batch_contiguous", chosen="run")


def batch_contiguous_minus(make: Maker) -> int:
    """Pay such a run without one or two of it."""
    return _of_one_payer(make, "batch_contiguous_minus", chosen="minus")


def batch_arbitrary(make: Maker) -> int:
    """Pay any of the payer's items."""
    return _of_one_payer(make, "batch_arbitrary", chosen="any")


def missing_member(make: Maker) -> int:
    """Pay several items of which one is not there, quoted or not: nothing there adds up to it."""
    payer = make.new_payer()
    items = _in_due_order(make, payer, make.number(4, 9))
    absent = make.amount(payer, payer.currency)
    told = make.happens(0.5)
    text = ", ".join([*(i.reference for i in items), make.reference()]) if told else make.pick(SILENT)
    amount = absent + sum(i.amount for i in items)
    line = make.line(amount, payer.currency, day=items[-1].due + 3, **{**usual(make, payer), "remittance": text})
    make.link("missing_member", [], [line], payer)
    for item in items:
        make.link("unpaid", [item], [], payer)
    return len(items)


def _parts(make: Maker, amount: int, count: int) -> list[int]:
    """Return ``count`` amounts that add up: equal ones with the rest in the last, or any."""
    if make.happens(0.7) or amount < 10 * count:
        part = amount // count
        return [*[part] * (count - 1), amount - part * (count - 1)]
    cuts = sorted(make.dice.sample(range(1, amount), count - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, amount], strict=True)]


def instalments_reference(make: Maker) -> int:
    """Pay one item in parts that quote it."""
    item = make.item(make.payer(), payable=False)
    for number, part in enumerate(_parts(make, item.amount, min(make.number(2, 4), item.amount)), start=1):
        text = make.pick(INSTALMENTS).format(i=number, r=item.reference)
        day = item.due + (number - 1) * make.number(7, 14)
        pay(make, item, "instalments_reference", amount=part, remittance=text, day=day)
    return 1


def instalments(make: Maker) -> int:
    """Pay one item in equal parts that say nothing about it."""
    payer = make.new_payer()
    item = make.item(payer, payable=False)
    count = min(make.number(2, 4), item.amount)
    part = item.amount // count
    for number, amount in enumerate([*[part] * (count - 1), item.amount - part * (count - 1)]):
        pay(make, item, "instalments", amount=amount, remittance=make.pick(SILENT), day=item.due + number * 12)
    return 1


GROUPS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "batch_id": batch_id,
        "batch_id_net": batch_id_net,
        "batch_references": batch_references,
        "batch_references_cut": batch_references_cut,
        "batch_references_short": batch_references_short,
        "less_credit_notes": less_credit_notes,
        "batch_contiguous": batch_contiguous,
        "batch_contiguous_minus": batch_contiguous_minus,
        "batch_arbitrary": batch_arbitrary,
        "missing_member": missing_member,
        "instalments_reference": instalments_reference,
        "instalments": instalments,
    }
)
"""Cases with a share."""

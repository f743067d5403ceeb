"""Cases of one item and one line, and of what belongs to nothing. Each makes one case and returns its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from payrec.bench.maker import RATES, Item, Maker, Payer
from payrec.bench.variants import changed_name, mistyped_reference, ordinary_name, partial_reference
from payrec.bench.vocabularies import CHARGES, NAMING, SILENT

Scenario = Callable[[Maker], int]
"""Makes one case and returns how many items it took; where there is no item, how many lines."""

RETURN_CODES: Final = ("PMNT-RCDT-RRTN", "PMNT-IDDT-UPDD", "NRTI+109+00931", "109", "181", "PMNT-IDDT-PRDD")
"""Bank transaction codes of what is taken back."""

_BANKS_TAKE_EUROS: Final = (1.5, 5.0, 7.5, 10.0, 12.5, 15.0, 25.0)


def pay(make: Maker, item: Item, kind: str, *, amount: int | None = None, **said: Any) -> int:
    """Add a line that pays the item, and say so; what is not said is as usual. Return the line."""
    line = make.line(
        item.amount if amount is None else amount,
        said.pop("currency", item.currency),
        day=said.pop("day", item.due + make.lateness()),
        **{**usual(make, item.payer), **said},
    )
    make.link(kind, [item], [line], item.payer)
    return line


def usual(make: Maker, payer: Payer) -> dict[str, str]:
    """Return what a line usually says about its payer."""
    return {
        "name": "" if make.happens(make.hardness.silent_names) else ordinary_name(make, payer),
        "iban": "" if make.happens(make.hardness.silent_accounts) else payer.iban,
    }


def exact_reference(make: Maker) -> int:
    """Say the reference and nothing else."""
    item = make.item(make.payer())
    said = item.reference if make.happens(0.8) else item.reference.replace("-", " ").lower()
    pay(make, item, "exact_reference", remittance=said)
    return 1


def end_to_end_id(make: Maker) -> int:
    """Bring a collection back with the end-to-end id that it was sent with."""
    payer = make.payer()
    sent = f"E2E-{make.number(1, 10**9):09d}-{payer.number}"
    item = make.item(payer, end_to_end_id=sent, reference=make.reference() if make.happens(0.5) else "")
    pay(make, item, "end_to_end_id", remittance=make.pick(SILENT), end_to_end_id=sent)
    return 1


def reference_in_noise(make: Maker) -> int:
    """Say the reference among other numbers."""
    item = make.item(make.payer())
    text = make.noisy(item.reference, item.payer) if make.happens(0.7) else make.quoted(item.reference)
    pay(make, item, "reference_in_noise", remittance=text)
    return 1


def typo_reference(make: Maker) -> int:
    """Mistype one digit of the reference; a neighbour may have that very reference."""
    item = make.item(make.payer())
    pay(make, item, "typo_reference", remittance=make.quoted(mistyped_reference(make, item.reference)))
    return 1


def partial_reference_only(make: Maker) -> int:
    """Say only the end of the reference, or all but its end."""
    item = make.item(make.payer())
    pay(make, item, "partial_reference", remittance=make.quoted(partial_reference(make, item.reference)))
    return 1


def wrong_reference(make: Maker) -> int:
    """Say somebody else's open reference, or one that nobody has; account and amount are right."""
    item = make.item(make.payer())
    text = make.reference()
    if make.happens(0.5):
        other = make.tables.expected[make.number(0, len(make.tables.expected) - 1)]
        text = other[5] or text
    pay(make, item, "wrong_reference", remittance=make.quoted(text), iban=item.payer.iban)
    return 1


def account_only(make: Maker) -> int:
    """Say nothing but the payer's account; the name, if any, is somebody else's."""
    item = make.item(make.payer(), reference=make.common_reference() or None)
    name = "" if make.happens(0.7) else make.payer().name
    pay(make, item, "account_only", remittance=make.pick(SILENT), name=name, iban=item.payer.iban)
    return 1


def name_only(make: Maker) -> int:
    """Say nothing but the payer's name, and that changed half of the time."""
    item = make.item(make.payer(), reference=make.common_reference() or None)
    name = changed_name(make, item.payer) if make.happens(0.5) else ordinary_name(make, item.payer)
    pay(make, item, "name_only", remittance=make.pick(SILENT), name=name, iban="")
    return 1


def name_in_text(make: Maker) -> int:
    """Say the payer's name within the text alone, as in the export of a bank that has one column for everything."""
    item = make.item(make.payer())
    text = str(make.pick(NAMING)).format(p=ordinary_name(make, item.payer), n=make.number(10_000_000, 99_999_999))
    pay(make, item, "name_in_text", remittance=text, name="", iban="", end_to_end_id="")
    return 1


def common_amount(make: Maker) -> int:
    """Pay an amount that many items have, without a reference; the payer is known by account or name."""
    payer = make.payer()
    common = make.common_reference()
    item = make.item(payer, amount=make.common_amount(payer.currency), reference=common or None)
    by_account = make.happens(0.6)
    pay(
        make,
        item,
        "common_amount",
        remittance=common.lower() or make.pick(SILENT),
        name=ordinary_name(make, payer),
        iban=payer.iban if by_account else "",
    )
    return 1


def amount_only(make: Maker) -> int:
    """Say nothing at all: there are amount and date."""
    item = make.item(make.payer())
    pay(make, item, "amount_only", remittance=make.pick(SILENT), name="", iban="", end_to_end_id="")
    return 1


def _differing(make: Maker, kind: str, amount: int, item: Item, *, currency: str | None = None) -> int:
    """Pay another amount; most such lines quote the reference."""
    text = make.noisy(item.reference, item.payer) if make.happens(0.8) else make.pick(SILENT)
    pay(make, item, kind, amount=amount, currency=currency or item.currency, remittance=text)
    return 1


def _less(item: Item, difference: int) -> int:
    """Return the amount, its sign kept, less a difference; something is always left."""
    size = max(abs(item.amount) - difference, 1)
    return size if item.amount > 0 else -size


def fee(make: Maker) -> int:
    """Let banks on the way keep something."""
    item = make.item(make.payer())
    taken = make.minor(make.pick(_BANKS_TAKE_EUROS), item.currency)
    if make.happens(0.4):
        taken = round(abs(item.amount) * make.dice.uniform(0.002, 0.029))
    return _differing(make, "fee", _less(item, min(max(taken, 1), abs(item.amount) // 5)), item)


def fx(make: Maker) -> int:
    """Pay in another currency, at about the rate of the day."""
    item = make.item(make.payer())
    currency = make.pick([c for c in RATES.per_eur if c != item.currency])
    euros = abs(item.amount) / 10 ** RATES.exponent[item.currency] / RATES.per_eur[item.currency]
    paid = make.minor(euros * make.dice.uniform(0.994, 1.004), currency)
    return _differing(make, "fx", paid if item.amount > 0 else -paid, item, currency=currency)


def rounding(make: Maker) -> int:
    """Pay a few minor units off, or a whole unit."""
    item = make.item(make.payer())
    unit = 10 ** RATES.exponent[item.currency]
    size = abs(item.amount)
    paid = size + make.number(1, 5) * (1 if make.happens(0.5) else -1)
    if unit > 1 and size > 2 * unit and size % unit and make.happens(0.4):
        paid = round(size / unit) * unit
    return _differing(make, "rounding", max(paid, 1) if item.amount > 0 else -max(paid, 1), item)


def overpaid(make: Maker) -> int:
    """Pay more than was asked for."""
    item = make.item(make.payer())
    more = max(round(abs(item.amount) * make.dice.uniform(0.01, 0.2)), 1)
    return _differing(make, "overpaid", _less(item, -more), item)


def underpaid(make: Maker) -> int:
    """Pay less than was asked for, by more than any fee."""
    item = make.item(make.payer())
    less = max(round(abs(item.amount) * make.dice.uniform(0.03, 0.4)), 1)
    return _differing(make, "underpaid", _less(item, less), item)


def refund(make: Maker) -> int:
    """Pay back what the company owes, as it said."""
    item = make.item(make.payer(), payable=True)
    text = make.quoted(item.reference) if make.happens(0.7) else make.pick(SILENT)
    pay(make, item, "refund", remittance=f"refund {text}".strip(), day=item.due + make.number(0, 6))
    return 1


def duplicate(make: Maker) -> int:
    """Pay, and have it there twice: reported again just the same, or sent again some days later."""
    item = make.item(make.payer())
    line = pay(make, item, "duplicate", remittance=make.noisy(item.reference, item.payer))
    first = make.tables.incoming[line]
    if make.happens(0.7):
        make.tables.incoming.append(first)
        again = len(make.tables.incoming) - 1
    else:
        day = (first[2] - make.tables.expected[item.row][2]).days + item.due + make.number(1, 5)
        again = make.line(first[0], first[1], day=day, remittance=first[4], name=first[5], iban=first[6])
    make.link("duplicate", [], [again], item.payer)
    return 1


def reversal(make: Maker) -> int:
    """Pay, and some days later take it back; now and then something of that amount is open the other way."""
    item = make.item(make.payer(), payable=False)
    text = make.noisy(item.reference, item.payer)
    line = pay(make, item, "reversal", remittance=text)
    first = make.tables.incoming[line]
    back = make.line(
        -first[0],
        first[1],
        day=item.due + make.number(5, 40),
        remittance=f"RETURN {text}",
        name=first[5],
        iban=first[6],
        code=make.pick(RETURN_CODES),
    )
    make.link("reversal", [], [back], item.payer)
    if make.happens(0.5):
        tempting = make.item(item.payer, amount=item.amount, currency=item.currency, payable=True)
        make.link("unpaid", [tempting], [], item.payer)
        return 2
    return 1


def missing_item(make: Maker) -> int:
    """Pay an item that is not there, while the payer and others have items that look like it."""
    payer = make.payer()
    absent = Item(-1, payer, make.amount(payer, payer.currency), payer.currency, make.due(), make.reference())
    said: dict[str, Any] = {**usual(make, payer), "remittance": make.pick(SILENT)}
    amount = absent.amount
    way = make.number(0, 7)
    if way == 0:
        said["remittance"] = make.quoted(mistyped_reference(make, absent.reference))
    elif way == 1:
        said["remittance"] = make.quoted(partial_reference(make, absent.reference))
    elif way == 2:
        said |= {"name": "", "iban": payer.iban}
    elif way == 3:
        said |= {"name": changed_name(make, payer), "iban": ""}
    elif way == 4:
        amount = make.common_amount(payer.currency)
    else:
        said["remittance"] = make.noisy(absent.reference, payer)
        taken = make.minor(make.pick(_BANKS_TAKE_EUROS), payer.currency)
        amount = {5: _less(absent, min(taken, amount // 5)), 6: amount + max(amount // 20, 1), 7: amount + 1}[way]
    line = make.line(amount, payer.currency, day=absent.due + make.lateness(), **said)
    make.link("missing_item", [], [line], payer)
    return 1


def noise(make: Maker) -> int:
    """Move money that nobody expected."""
    payer = make.payer()
    amount = make.unrelated_amount(payer.currency)
    known = make.happens(0.3)
    line = make.line(
        amount if make.happens(0.4) else -amount,
        payer.currency,
        day=make.due(),
        remittance=f"{make.pick(CHARGES)} {make.number(1, 10**7) if make.happens(0.5) else ''}".strip(),
        name=ordinary_name(make, payer) if known else make.pick(CHARGES).title(),
        iban=payer.iban if known and make.happens(0.5) else "",
    )
    make.link("noise", [], [line], payer)
    return 1


def unpaid(make: Maker) -> int:
    """Expect what nobody pays."""
    payer = make.payer()
    item = make.item(payer, reference=make.common_reference() or None)
    make.link("unpaid", [item], [], payer)
    return 1


SINGLE: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "exact_reference": exact_reference,
        "end_to_end_id": end_to_end_id,
        "reference_in_noise": reference_in_noise,
        "typo_reference": typo_reference,
        "partial_reference": partial_reference_only,
        "wrong_reference": wrong_reference,
        "account_only": account_only,
        "name_only": name_only,
        "name_in_text": name_in_text,
        "common_amount": common_amount,
        "amount_only": amount_only,
        "fee": fee,
        "fx": fx,
        "rounding": rounding,
        "overpaid": overpaid,
        "underpaid": underpaid,
        "refund": refund,
        "duplicate": duplicate,
        "reversal": reversal,
        "missing_item": missing_item,
    }
)
"""Cases with a share; ``noise`` and ``unpaid`` fill what is left."""

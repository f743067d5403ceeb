"""What kind of match a set of legs makes."""

from __future__ import annotations

from collections.abc import Collection


def kind_of(*, settled: Collection[object], taken: Collection[object]) -> str:
    """Return the kind of legs that settle items by lines, by the different transactions at either end."""
    return f"{'many' if len(taken) > 1 else 'one'}_to_{'many' if len(settled) > 1 else 'one'}"


def money_kind_of(*, of_items: bool, own_accounts: Collection[str | None]) -> str:
    """Return the kind of legs that all settle one side with itself.

    Between two of the tenant's own accounts money is transferred; otherwise it has been given back.
    """
    if of_items:
        return "credit_note"
    return "transfer" if len(set(own_accounts) - {None}) > 1 else "refund"

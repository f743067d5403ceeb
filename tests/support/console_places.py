"""One of everything that a page of the console is about, in a tenant's production, and the addresses of its pages."""

from __future__ import annotations

from support.books import keep_books
from support.service import Tenant
from support.statements import IBAN, camt, message


async def keep_places(tenant: Tenant) -> dict[str, str]:
    """Fill a tenant's production, and return what stands for the parameters of addresses."""
    await keep_books(tenant)
    for content in (message(camt(0, 100, 0)), message(camt(300, 450, 8))):
        answer = await tenant.post("/incoming-transactions/upload", None, files={"file": ("statement.xml", content)})
        assert answer.status_code == 201, answer.text

    async def first(path: str) -> str:
        return str((await tenant.get(path)).json()["data"][0]["id"])

    return {
        "environment": "production",
        "match_id": await first("/matches?status=accepted"),
        "import_id": await first("/imports"),
        "account_id": await first(f"/accounts?identifier={IBAN}"),
        "side": "incoming",
        "incoming": await first("/incoming-transactions?status=unmatched"),
        "expected": await first("/expected-transactions"),
    }


def address_of(route: str, places: dict[str, str]) -> str:
    """Return where the page of a route is."""
    side = "expected" if "/expected/" in route else "incoming"
    return route.format(**places, transaction_id=places[side])

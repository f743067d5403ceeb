"""Every text of every format, and of every client, is hostile: on each page of the console it ends as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import quote, urlencode

import pytest

from payrec.formats.registry import READERS
from payrec.models.imports import UploadFormat
from support.browser import ConsoleWorld, opened, sign_in
from support.console_routes import DOWNLOADS, ENTERED, console_paths
from support.hostile_files import FILES, read_fields, text_fields
from support.hostile_texts import TAG, hostile
from support.hostile_world import (
    CUT_OFF,
    HostileWorld,
    hostile_world,
    look,
    shown_texts,
    upload_all,
)

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.anyio

NOT_IN_FILES: Final = {
    "Entry.currency",  # a code of ISO 4217, or the record is rejected
    "Entry.reused_id",  # the identity, where it comes twice
    "Statement.created_at",  # an instant
    "Statement.currency",
    "Statement.first_page_id",  # the id of another page
}
_STATEMENT: Final = "Statement.account_bic Statement.account_name"
_TABLE: Final = (
    f"{_STATEMENT} Statement.sequence_number Statement.statement_id Entry.check_number Entry.entry_reference"
)
_IDS: Final = "Entry.instruction_id Entry.mandate_id Entry.payment_information_id Entry.uetr"
_WHY: Final = "Entry.purpose_code Entry.return_reason"
_PARTY: Final = "Entry.counterparty_account Entry.counterparty_bic"
_PROVIDER: Final = f"{_TABLE} {_IDS} {_WHY} {_PARTY} Entry.structured_reference Entry.ultimate_counterparty_name"
_SHEET: Final = f"{_TABLE} {_IDS} {_WHY} Entry.bank_reference Entry.exchange_rate Entry.transaction_id"
LACKING: Final = {
    "camt": "Entry.external_id Entry.metadata",
    "ofx": (
        f"{_STATEMENT} Statement.sequence_number Statement.statement_id {_IDS} {_WHY} Entry.counterparty_bic"
        " Entry.end_to_end_id Entry.entry_reference Entry.exchange_rate Entry.external_id Entry.metadata"
        " Entry.structured_reference Entry.ultimate_counterparty_name"
    ),
    "bai2": (
        f"{_TABLE} {_WHY} {_PARTY} Entry.structured_reference Entry.ultimate_counterparty_name Entry.mandate_id"
        " Entry.payment_information_id Entry.uetr Entry.bank_transaction_code Entry.counterparty_name"
        " Entry.end_to_end_id Entry.exchange_rate"
        " Entry.external_id Entry.identity_value Entry.metadata Entry.transaction_id"
    ),
    "mt940": (
        f"{_STATEMENT} Entry.bank_transaction_code Entry.check_number Entry.counterparty_bic Entry.entry_reference"
        " Entry.exchange_rate Entry.external_id Entry.identity_value Entry.transaction_id Entry.uetr"
    ),
    "json": f"{_TABLE} Entry.counterparty_bic Entry.exchange_rate Entry.payment_information_id",
    "stripe": f"{_PROVIDER} Statement.account Entry.account Entry.exchange_rate",
    "adyen": f"{_PROVIDER} Entry.counterparty_name Entry.metadata",
    "paypal": f"{_PROVIDER} Entry.exchange_rate Entry.metadata",
    "xlsx": _SHEET,
    "csv": _SHEET,
}
"""Texts that a family of formats has no place for, or takes only of a kind that cannot be hostile."""


def family(name: str) -> str:
    return next(known for known in LACKING if name.replace("mt942", "mt940").startswith(known))


def test_every_format_has_a_file_and_every_text_in_it_is_hostile() -> None:
    assert set(FILES) == set(get_args(UploadFormat)) - {"auto", "camt"}
    found: dict[str, set[str]] = {}
    for name, make in FILES.items():
        read_as, fields, rejected = read_fields(make())
        assert (read_as, rejected) == (name, [])
        found[family(name)] = found.get(family(name), set()) | fields
    # Providers' reports are one reader with a family each.
    assert {reader.name for reader in READERS} - {"psp"} <= set(found)
    for name, fields in found.items():
        lacking = set(LACKING[name].split()) | NOT_IN_FILES
        assert fields.isdisjoint(lacking), (name, fields & lacking)
        assert fields | lacking == text_fields(), (name, text_fields() - fields - lacking)


Visits = Callable[[HostileWorld, dict[str, Any]], Iterator[str]]
Q: Final = quote(hostile("typed"))


def at(*paths: str) -> Visits:
    """Visit pages of production that are there without anything in them."""

    def visits(_found: HostileWorld, _known: dict[str, Any]) -> Iterator[str]:
        yield from paths

    return visits


def each(pattern: str, of: Callable[[HostileWorld, dict[str, Any]], list[str]]) -> Visits:
    """Visit the page of each."""

    def visits(found: HostileWorld, known: dict[str, Any]) -> Iterator[str]:
        yield from (pattern.format(one) for one in of(found, known))

    return visits


def matches(found: HostileWorld, _known: dict[str, Any]) -> list[str]:
    return list(found.matches.values())


def imports(found: HostileWorld, _known: dict[str, Any]) -> list[str]:
    return list(found.imports.values())


def accounts(_found: HostileWorld, known: dict[str, Any]) -> list[str]:
    return [str(one["id"]) for one in known["accounts"][:5]]


def open_lines(found: HostileWorld, _known: dict[str, Any]) -> list[str]:
    return [found.lines[1], found.lines[-1]]


FILTERS: Final = urlencode({name: hostile(name) for name in ("q", "currency", "amountMin", "account", "days")})
P: Final = ENTERED
VISITS: Final[dict[str, Visits]] = {
    "/console": at(""),
    P: at("/production"),
    "/console/sign-in": at(f"/sign-in?next={Q}", f"/sign-in?next=/console/{Q}"),
    "/console/callback": at(f"/callback?state={Q}&code={Q}&error={Q}"),
    "/console/signed-in": at("/signed-in"),
    "/console/static/{version}/{file}": at(f"/static/{Q}/{Q}"),
    f"{P}/overview": at("/production/overview", "/production/overview?whole=1", f"/production/{Q}", f"/{Q}/overview"),
    f"{P}/overview/figures": at("/production/overview/figures"),
    f"{P}/overview/activity": at("/production/overview/activity"),
    f"{P}/review": at("/production/review", f"/production/review?match={Q}", f"/production/review?currency={Q}"),
    f"{P}/review/queue": at("/production/review/queue"),
    f"{P}/review/items/{{match_id}}": each("/production/review/items/{}", matches),
    f"{P}/review/items/{{match_id}}/choices": each("/production/review/items/{}/choices", matches),
    f"{P}/matches/{{match_id}}": each("/production/matches/{}", matches),
    f"{P}/unmatched": at("/production/unmatched", f"/production/unmatched?{FILTERS}"),
    f"{P}/unmatched/{{side}}/{{transaction_id}}/candidates": each(
        "/production/unmatched/incoming/{}/candidates", open_lines
    ),
    f"{P}/search": at(f"/production/search?q={Q}", f"/production/search?q={quote(TAG)}", "/production/search?q=5.00"),
    f"{P}/incoming/{{transaction_id}}": each("/production/incoming/{}", lambda found, _: found.lines),
    f"{P}/expected/{{transaction_id}}": each("/production/expected/{}", lambda found, _: found.items),
    f"{P}/imports": at("/production/imports", f"/production/imports?cursor={Q}"),
    f"{P}/imports/timeline": at(f"/production/imports/timeline?through={CUT_OFF}"),
    f"{P}/imports/{{import_id}}": each("/production/imports/{}", imports),
    f"{P}/imports/{{import_id}}/lines": each("/production/imports/{}/lines", imports),
    f"{P}/month-end": at(f"/production/month-end?cutOff={CUT_OFF}", f"/production/month-end?cutOff={Q}"),
    f"{P}/month-end/readiness": at(f"/production/month-end/readiness?cutOff={CUT_OFF}"),
    f"{P}/month-end/{{account_id}}": each(f"/production/month-end/{{}}?cutOff={CUT_OFF}&part=open", accounts),
    f"{P}/month-end/{{account_id}}/statement": each(f"/production/month-end/{{}}/statement?cutOff={CUT_OFF}", accounts),
}
"""Where each page is looked at, by its route."""


async def test_on_every_page_a_hostile_text_is_a_text(browser: Browser, console_world: ConsoleWorld) -> None:
    found = await hostile_world(console_world)
    async with opened(browser, console_world.base_url) as window:
        asked: list[str] = []
        window.on("dialog", lambda dialog: asked.append(dialog.message))
        await sign_in(window, console_world, found.person)
        page = await window.new_page()
        await upload_all(found, page)
        await walk(found, page)
        assert asked == []
        assert found.faults == [], "\n".join(found.faults[:50])


async def walk(found: HostileWorld, page: Page) -> None:
    """Look at every page there is; on the pages of one resource all of its texts have to be seen."""
    assert {*VISITS, *DOWNLOADS} == set(console_paths())
    known = {"accounts": (await found.get("/accounts?limit=200"))["data"]}
    assert known["accounts"]
    for route, visits in VISITS.items():
        for path in visits(found, known):
            await page.goto(f"/console{path}")
            await settled(page)
            await look(found, page, f"{route}: {path}")
    await shows_all(found, page)


async def settled(page: Page) -> None:
    """Wait for the parts of a page that come by themselves."""
    await page.wait_for_function(
        """() => !document.querySelector("[aria-busy=true], .loading, #review:not([data-is-ready])")
            && !document.querySelector("#item [data-choices] > .soft > a")"""
    )


async def shows_all(found: HostileWorld, page: Page) -> None:
    """Assert that whatever the interface tells of a resource can be read on its page, as text."""
    for side, kind, ids in (("incoming", "incoming", found.lines), ("expected", "expected", found.items)):
        for one in ids:
            told = shown_texts(await found.get(f"/{side}-transactions/{one}"))
            await page.goto(f"/console/production/{kind}/{one}")
            text = await page.evaluate("document.querySelector('main').textContent")
            assert told
            found.faults += [f"{kind}/{one} does not show {part[:120]}" for part in told if part not in text]

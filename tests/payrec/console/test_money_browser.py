"""Amounts that a script writes look like those of the server, whatever the locale and the currency."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from payrec.console import formatting
from payrec.domain.money import exponent
from support.browser import ConsoleWorld, opened, sign_in

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.anyio

LOCALES: Final = ("en", "en-IN", "de", "de-AT", "de-CH", "es", "pl", "pt-PT", "fr", "sv", "ar-EG", "fa", "hi", "he")
CURRENCIES: Final = ("EUR", "JPY", "BHD", "HUF", "CLF")
AMOUNTS: Final = (0, 7, -7, 1234, -123456, 10**7, -(10**17) - 1)

WRITTEN: Final = """async ([given, cases]) => {
    Object.assign(document.body.dataset, given);
    const own = document.querySelector('script[src*="console.js"]').src;
    const { money } = await import(`${own}?${given.locale}`);
    return cases.map(([minor, currency, exponent]) => money(BigInt(minor), currency, exponent));
}"""
"""The module reads what the page says of the locale when it is loaded: another address is another module."""


async def test_scripts_write_money_as_the_server_does(page: Page) -> None:
    cases = [(str(minor), currency, exponent(currency)) for minor, currency in product(AMOUNTS, CURRENCIES)]
    for locale in LOCALES:
        parsed = formatting.locale_of(locale)
        await page.goto("/console/production/search")
        told = await page.evaluate(WRITTEN, [{"locale": locale, **formatting.symbols(parsed)}, cases])
        assert told == [formatting.money(int(minor), currency, parsed) for minor, currency, _ in cases], locale


READ: Final = """async ([given, cases]) => {
    Object.assign(document.body.dataset, given);
    const own = document.querySelector('script[src*="console.js"]').src;
    const { minorOf } = await import(own.replace("console.js", "review_texts.js"));
    return cases.map(([typed, exponent]) => minorOf(typed, exponent)?.toString() ?? null);
}"""

TYPED: Final = {
    "en": {"4.50": 450, "4,50": None, "1,234": 123400, "1,234.5": 123450, "12,34,567": 123456700, "1 234.50": 123450},
    "de": {"4,50": 450, "400.00": None, "1.234": 123400, "1.234,50": 123450, "1234,5": 123450, "1.234.56": None},
    "de-CH": {"4.50": 450, "1’234.50": 123450, "1'234.50": 123450, "4,50": None, "1’23": None},
    "fr": {"4,50": 450, "1\u202f234,50": 123450, "1 234,50": 123450, "4.50": None, "4 50": None},
}
"""What people type, and the minor units that are meant; nothing where that is not certain."""


async def test_an_amount_that_is_typed_is_what_is_meant_or_refused(page: Page) -> None:
    every = {"": 0, "  ": 0, "0": 0, "7": 700, "-7": None, "x": None, "1e3": None, "9999999999999": 999999999999900}
    for locale, own in TYPED.items():
        cases = every | own
        await page.goto("/console/production/search")
        symbols = formatting.symbols(formatting.locale_of(locale))
        read = await page.evaluate(READ, [symbols, [[typed, 2] for typed in cases]])
        wanted = [None if minor is None else str(minor) for minor in cases.values()]
        assert dict(zip(cases, read, strict=True)) == dict(zip(cases, wanted, strict=True)), locale


async def test_a_locale_that_no_browser_takes_is_written_as_the_nearest(
    browser: Browser, console_world: ConsoleWorld
) -> None:
    globex = console_world.globex
    changed = await globex.request("PATCH", f"/tenants/{globex.id}/settings", json={"locale": "de-12"})
    assert changed.status_code == 200, changed.text
    async with opened(browser, console_world.base_url) as window:
        await sign_in(window, console_world, globex)
        page = await window.new_page()
        await page.goto("/console/production/imports")
        assert await page.evaluate("new Intl.NumberFormat(document.body.dataset.locale).format(0.5)") == "0,5"

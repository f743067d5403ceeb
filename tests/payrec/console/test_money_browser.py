"""Amounts that a script writes look like those of the server, whatever the locale and the currency."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from payrec.console import formatting
from payrec.domain.money import exponent

if TYPE_CHECKING:
    from playwright.async_api import Page

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

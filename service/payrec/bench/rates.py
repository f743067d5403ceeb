"""The exchange rates of a data set as those that a tenant would have stored: one of each currency every few days."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Final

import polars as pl

from payrec.bench.dataset import Rates
from payrec.constants import BULK_ITEMS_MAX
from payrec.domain.caller import IdSource
from payrec.domain.currencies import MINOR_UNITS
from payrec.domain.fx_rates import FxRateError, parse_rate
from payrec.storage.fx_rates import RatePut

RATE_EVERY_DAYS: Final = 5
"""Days between two rates of a currency: no line is further from one than a run looks."""

RATE_DIGITS: Final = 9
"""Significant digits of a stored rate; central banks give six."""

_EURO: Final = "EUR"


def rate_puts(rates: Rates, days: pl.Series, ids: IdSource) -> Iterator[list[RatePut]]:
    """Return the rates around the days of the lines, in pieces of what one request may bring.

    What no request could store, because its currency is not known or its rate has too many digits, is left out.
    """
    firsts = (days.drop_nulls().cast(pl.Int32) // RATE_EVERY_DAYS).unique().sort() * RATE_EVERY_DAYS
    puts = []
    for currency, units in sorted(rates.per_eur.items()):
        if currency not in MINOR_UNITS or currency == _EURO:
            continue
        try:
            rate = parse_rate(f"{Context(prec=RATE_DIGITS).create_decimal(Decimal(str(units))):f}")
        except FxRateError:
            continue
        puts += [
            RatePut(
                id=ids.new(),
                rated_on=day,
                base=_EURO,
                quote=currency,
                mantissa=rate.mantissa,
                places=rate.places,
            )
            for day in firsts.cast(pl.Date)
        ]
    for place in range(0, len(puts), BULK_ITEMS_MAX):
        yield puts[place : place + BULK_ITEMS_MAX]

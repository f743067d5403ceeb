"""The rates of a data set become those of a tenant: near every line, and only what a request could store."""

from __future__ import annotations

from datetime import date, timedelta

import polars as pl
import pytest

from payrec.bench.dataset import Rates
from payrec.bench.rates import RATE_EVERY_DAYS, rate_puts
from payrec.constants import BULK_ITEMS_MAX
from payrec.domain.fx_rates import FxRate
from payrec.domain.rate_book import FX_DAYS_MAX
from payrec.factory import TimeOrderedIds


def puts(per_eur: dict[str, float], days: list[date | None]) -> list[tuple[date, str, str, str]]:
    rates = Rates(per_eur=per_eur, exponent={})
    pieces = list(rate_puts(rates, pl.Series(days, dtype=pl.Date), TimeOrderedIds()))
    assert all(len(piece) <= BULK_ITEMS_MAX for piece in pieces)
    return [(p.rated_on, p.base, p.quote, str(FxRate(p.mantissa, p.places))) for piece in pieces for p in piece]


def test_every_line_has_a_rate_near_its_day() -> None:
    days = [date(2026, 1, 1) + timedelta(days=n) for n in range(40)]
    found = puts({"USD": 1.09}, [*days, None])
    assert {row[1:] for row in found} == {("EUR", "USD", "1.09")}
    assert len(found) == len(set(found)) <= len(days) // RATE_EVERY_DAYS + 1
    for day in days:
        assert min(abs((day - row[0]).days) for row in found) <= FX_DAYS_MAX


@pytest.mark.parametrize(
    ("value", "written"), [(163.0, "163"), (0.335, "0.335"), (1 / 3, "0.333333333"), (1e-7, "0.0000001")]
)
def test_a_rate_is_written_as_a_decimal(value: float, written: str) -> None:
    assert [row[3] for row in puts({"USD": value}, [date(2026, 1, 1)])] == [written]


def test_what_no_request_could_store_is_left_out() -> None:
    assert puts({"EUR": 1.0, "ABC": 2.0, "USD": 1e-13, "GBP": 1e30}, [date(2026, 1, 1)]) == []
    assert puts({"USD": 1.1}, []) == []


def test_very_many_days_come_in_pieces() -> None:
    days = [date(1900, 1, 1) + timedelta(days=n * RATE_EVERY_DAYS) for n in range(BULK_ITEMS_MAX + 1)]
    assert len(puts({"USD": 1.1}, list(days))) == len(days)

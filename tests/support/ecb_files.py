"""Files of exchange rates as the European Central Bank makes them: the table in its zip, and the XML."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

Rates = Mapping[str, Mapping[str, str]]
"""Rates as they are written, by day and currency."""

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def xml(rates: Rates) -> bytes:
    """Return the XML."""
    days = "".join(
        f"\t\t<Cube time='{day}'>\n"
        + "".join(f"\t\t\t<Cube currency='{currency}' rate='{rate}'/>\n" for currency, rate in of_day.items())
        + "\t\t</Cube>\n"
        for day, of_day in rates.items()
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"'
        ' xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">\n'
        "\t<gesmes:subject>Reference rates</gesmes:subject>\n"
        "\t<gesmes:Sender>\n\t\t<gesmes:name>European Central Bank</gesmes:name>\n\t</gesmes:Sender>\n"
        f"\t<Cube>\n{days}\t</Cube>\n</gesmes:Envelope>\n"
    ).encode()


def daily_table(day: str, rates: Mapping[str, str]) -> bytes:
    """Return the table of one day, whose separators have a blank behind them."""
    year, month, number = day.split("-")
    spoken = f"{int(number):02d} {_MONTHS[int(month) - 1]} {year}"
    lines = (["Date", *rates], [spoken, *rates.values()])
    return "".join(f"{', '.join(line)}, \n" for line in lines).encode()


def table(rates: Rates) -> bytes:
    """Return the table of many days; a currency without a rate of a day has ``N/A``."""
    currencies = list(dict.fromkeys(currency for of_day in rates.values() for currency in of_day))
    rows = [[day, *(of_day.get(currency, "N/A") for currency in currencies)] for day, of_day in rates.items()]
    return "".join(f"{','.join(line)},\n" for line in (["Date", *currencies], *rows)).encode()


def zipped(data: bytes, name: str = "eurofxref.csv") -> bytes:
    """Return the zip that a table comes in."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()

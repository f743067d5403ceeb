"""Limits of files with exchange rates."""

from __future__ import annotations

from typing import Final

ECB_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of a file of the European Central Bank after its container; all its days since 1999 take about 8 MiB."""

ECB_RATES_MAX: Final = 500_000
"""Rates of such a file; there are about 220,000 since 1999."""

ECB_CURRENCIES_MAX: Final = 200
"""Columns of the table, or names that its XML may use; it has had about 45."""

ECB_DAILY_URL: Final = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
"""Where the rates of the day are, about 16:00 CET of every working day."""

ECB_STORED_AT_ONCE: Final = 10_000
"""Rates that one statement stores."""

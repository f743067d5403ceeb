"""Limits of jobs: how often they are tried, and what they take of a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

JOB_ATTEMPTS_MAX: Final = 5
"""Attempts at one job, those whose worker died included, but not those that it handed over; then it is failed."""

JOB_SUSPECT_ATTEMPTS: Final = 2
"""Attempts from which on a job whose worker has died may be what kills workers: such jobs run one at a time."""

WORKER_GRACE_SECONDS: Final = 20
"""How long what runs may go on when a worker is asked to end, unless set; then others have it."""

JOB_RETRY_DELAY_FIRST: Final = timedelta(seconds=2)
"""Longest wait from the first failed attempt to the second."""

JOB_RETRY_GROWTH: Final = 4
"""How many times as long the next wait is."""

JOB_RETRY_DELAY_MAX: Final = timedelta(minutes=5)
"""Longest wait between two attempts."""

JOBS_QUEUED_MAX: Final = 1_000
"""Jobs of a kind that wait in one tenant environment: their files are kept, and all tenants share the workers."""

JOBS_QUEUED_RETRY_SECONDS: Final = 30
"""After which time who was refused for that may ask again."""

JOB_BYTES_FIXED: Final = 64 * 1024 * 1024
"""Memory that a job may take whatever its size: files and lists are streams."""

MATCH_RUN_BYTES_PER_ROW: Final = 1_250
"""Memory that a run takes for each open row of either side; ordinary data takes 1,000, the most while it is written."""

BACKTEST_ROWS_MAX: Final = 200_000
"""Rows of either side that may be open on one day of a backtest."""

BACKTEST_BYTES_PER_ROW: Final = 8_000
"""Memory that a backtest takes for each row of a day: texts are read with it, because keys are made anew."""

JOB_SMALL_ROWS_MAX: Final = 30_000
"""Open rows of a run that is over soon."""

JOB_SMALL_FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a file whose import is over soon."""

OVERDUE_TOLD_AT_ONCE: Final = 5_000
"""Overdue expected transactions that one transaction tells of."""

DATABASE_AWAY_SECONDS_MAX: Final = 5.0
"""Most time between two attempts of a worker at a database that is not there; the first follow each other sooner."""

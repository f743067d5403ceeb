"""Files of the suite on a Citus cluster: the same tests, with tenants' schemas on its workers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from support.charts import ROOT
from support.citus import VARIABLE, cluster_url

FOLDERS: Final = ("api", "console", "gate", "jobs", "services", "storage")
"""Below ``tests/payrec``: what passes there, but for what is marked ``not_on_citus``."""

TIMEOUT_SECONDS: Final = 5_400


@pytest.mark.timeout(TIMEOUT_SECONDS + 60)
@pytest.mark.parametrize("folder", FOLDERS)
def test_it_passes_on_citus(folder: str) -> None:
    url = cluster_url()
    done = subprocess.run(  # noqa: S603 - our own tests
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "3", "--citus", "-p", "no:cacheprovider"),
            f"tests/payrec/{folder}",
        ],
        cwd=ROOT,
        env={**os.environ, VARIABLE: url},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-20_000:]

"""Writes the dashboards of the chart: ``python deploy/monitoring/dashboards [FOLDER]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ingestion
import jobs
import matching
import service
import tenants

FOLDER = Path(__file__).resolve().parents[3] / "charts" / "payrec" / "dashboards"

DASHBOARDS = [module.DASHBOARD for module in (service, matching, ingestion, jobs, tenants)]


def main(folder: Path) -> None:
    """Write each dashboard as a file of a folder."""
    for dashboard in DASHBOARDS:
        text = json.dumps(dashboard.rendered(), indent=1, ensure_ascii=False)
        (folder / f"{dashboard.uid}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)

"""A tenant at work, in one piece: the demo's items and its statement, matched, and one match accepted."""

from __future__ import annotations

import json
from importlib import resources

from support.service import Tenant

DATA = resources.files("payrec") / "demo_data"
ITEMS = 24
LINES = 97


async def keep_books(tenant: Tenant, environment: str = "production") -> None:
    """Load what is expected, upload what moved, match, and accept the first proposal."""
    for item in json.loads((DATA / "expected.json").read_text(encoding="utf-8")):
        made = await tenant.post("/expected-transactions", item, environment)
        assert made.status_code == 201, made.text
    statement = (DATA / "betterplace_sepa_mt9401.sta").read_bytes()
    headers = {"Content-Type": "application/octet-stream"}
    uploaded = await tenant.post("/incoming-transactions/upload", None, environment, content=statement, headers=headers)
    assert uploaded.status_code == 201, uploaded.text
    assert uploaded.json()["counts"]["accepted"] == LINES
    run = await tenant.post("/matches/match", {"wait": 60}, environment)
    assert run.status_code == 200, run.text
    assert run.json()["status"] == "succeeded", run.text
    proposed = (await tenant.get("/matches", environment, params={"status": "proposed"})).json()["data"]
    accepted = await tenant.post(f"/matches/{proposed[0]['id']}/accept", {}, environment)
    assert accepted.status_code == 200, accepted.text

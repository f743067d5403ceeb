"""The main job: expected payments are loaded, a real bank's statement is uploaded, matched, and a match accepted."""

from __future__ import annotations

import json
from importlib import resources

from api import connect, content, tell

STATEMENT = "betterplace_sepa_mt9401.sta"

data = resources.files("payrec") / "demo_data"
with connect() as http:
    items = json.loads((data / "expected.json").read_bytes())
    loaded = [content(http.post("/expected-transactions", json=item)) for item in items]
    uploaded = content(
        http.post(
            "/incoming-transactions/upload",
            content=(data / STATEMENT).read_bytes(),
            headers={"Content-Type": "application/octet-stream"},
        )
    )
    run = content(http.post("/matches/match", json={"wait": 60}))
    proposed = content(http.get("/matches", params={"status": "proposed", "limit": "200"}))["data"]
    exact = next(match for match in proposed if match["confidence"] == "exact")
    accepted = content(http.post(f"/matches/{exact['id']}/accept"))
    settled = content(http.get(f"/expected-transactions/{exact['legs'][0]['expectedTransactionId']}"))
    tell(
        loaded=len(loaded),
        counts=uploaded["counts"],
        run=run["status"],
        proposed=len(proposed),
        accepted=accepted["status"],
        settled=settled["status"],
        statement_lines=len(content(http.get("/incoming-transactions", params={"limit": "200"}))["data"]),
    )

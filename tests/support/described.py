"""A tenant with one of what the interface has, and the ids by which its operations ask for each."""

from __future__ import annotations

import json

from support.service import Service, Tenant
from support.wire import rows


async def described(service: Service, slug: str, *, text: str = "INV-2024-17") -> tuple[Tenant, dict[str, str]]:
    """Return a new tenant with one of everything, whose texts say ``text``, and an id for each collection."""
    tenant = await service.tenant(slug, environments=["production"])
    money = {"direction": "credit", "amount": "12.34", "currency": "EUR"}
    expected = await tenant.post("/expected-transactions", {**money, "reference": text})
    incoming = await tenant.post("/incoming-transactions", {**money, "bookingDate": "2024-03-04", "remittance": text})
    content = json.dumps([{"amount": "x"}, {**money, "bookingDate": "2024-03-04"}]).encode()
    imported = await tenant.post("/incoming-transactions/upload", files={"file": ("lines.json", content)})
    now = await rows(service, tenant, "SELECT clock_timestamp() AS at")
    said = {"takenAt": now[0]["at"].isoformat(), "controlTotals": "[]"}
    snapshot = await tenant.post("/expected-transactions/snapshots", files={"file": ("x.json", b"[]")}, data=said)
    run = await tenant.post("/matches/match", {})
    matches = await tenant.get("/matches")
    key = await tenant.post("/auth/api-keys", {"read": True})
    hook = await tenant.post("/webhooks", {"url": "https://127.0.0.1:65535/", "events": ["*"]})
    source = {"name": "nobody", "kind": "http", "config": {"urls": ["https://127.0.0.1:65535/a.csv"]}}
    source = (await tenant.post("/data-sources", source)).json()
    account = await tenant.post("/accounts", {"identifier": "GIRO", "currency": "EUR"})
    listed = {"reference": text, "amountMinor": 1_234}
    paid = {"paymentReference": f"RUN-{text}", "totalMinor": 1_234, "currency": "EUR", "lines": [listed]}
    advice = await tenant.post("/remittance-advices", paid)
    lock = await tenant.post("/period-locks", {"through": "2020-12-31", "account": "GIRO", "reason": "closed"})
    for answer in (expected, incoming, imported, snapshot, run, matches, key, hook, account, lock, advice):
        assert answer.is_success, answer.text
    return tenant, {
        "/expected-transactions": expected.json()["id"],
        "/expected-transactions/snapshots": snapshot.json()["id"],
        "/incoming-transactions": incoming.json()["id"],
        "/imports": imported.json()["id"],
        "/data-sources": source["id"],
        "/accounts": account.json()["id"],
        "/period-locks": lock.json()["id"],
        "/remittance-advices": advice.json()["id"],
        "/jobs": run.json()["jobId"],
        "/matches": matches.json()["data"][0]["id"],
        "/auth/api-keys": key.json()["id"],
        "/matching/aliases": key.json()["id"],  # of no alias: none has been learned
        "/matching/rejections": key.json()["id"],  # of no match: none was rejected
        "/tenants": tenant.id,
        "/privacy/erasures": key.json()["id"],  # of no erasure: texts would be missed elsewhere
        "/exports": key.json()["id"],  # of no export: it has a job first
        "/events": key.json()["id"],  # of no event: they have their places later
        "/webhooks": hook.json()["id"],
    }

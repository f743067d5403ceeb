"""Upload at one pod and read at another: what pods share is in the database and the blob store, and nowhere else.

PODS are addresses of API pods, or none: then everything goes through the Service. Each takes a file of its own, and
another one answers for its lines; each begins an export, which any worker makes, and another one hands it out. RUN is
part of the lines, so that they are no other run's.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack

import httpx2
from api import connect, content, finished, patient, tell

LINES = 6_000
"""Enough that the file is read by a worker, and not within the request."""

SERVICE = [""] * 3
RUN = os.environ["RUN"]
pods = [f"http://{address}:8000" for address in os.environ["PODS"].split(",") if address] or SERVICE


def line(number: int, row: int) -> str:
    """Return a line of a file."""
    return json.dumps(
        {
            "externalId": f"{RUN}-{number}-{row}",
            "account": f"{RUN}-{number}",
            "direction": "credit",
            "amount": f"{row}.00",
            "currency": "EUR",
            "bookingDate": "2026-01-31",
        }
    )


def uploaded(http: httpx2.Client, other: httpx2.Client, number: int) -> dict[str, object]:
    """Upload a file here, and ask there what became of it."""
    file = "\n".join(line(number, row) for row in range(1, LINES + 1))
    kind = {"Content-Type": "application/x-ndjson"}
    made = content(patient(lambda: http.post("/incoming-transactions/upload", content=file, headers=kind)))
    job = finished(other, made["jobId"])
    counts = content(patient(lambda: other.get(f"/imports/{made['id']}")))["counts"]
    return {"id": made["id"], "job": job["status"], **counts}


def exported(http: httpx2.Client, other: httpx2.Client, import_id: object) -> dict[str, object]:
    """Begin an export of a file's lines here, and fetch it there."""
    params = {"resource": "incoming-transactions", "format": "csv", "filter": {"importId": import_id}}
    body = {"kind": "export", "params": params}
    name = {"Idempotency-Key": f"{RUN}-{import_id}"}
    begun = content(patient(lambda: http.post("/jobs", json=body, headers=name)))
    result = finished(other, begun["id"])["result"]
    file = patient(lambda: other.get(result["url"]))
    return {"status": file.status_code, "rows": result["rows"], "lines": len(file.text.splitlines())}


with ExitStack() as stack:
    clients = [stack.enter_context(connect(pod)) for pod in pods]
    pairs = list(zip(clients, [*clients[1:], clients[0]], strict=True))
    stored = [uploaded(*pair, number) for number, pair in enumerate(pairs)]
    tell(
        stored=stored,
        exported=[exported(*pair, found.pop("id")) for pair, found in zip(pairs, stored, strict=True)],
    )

"""What every client does: read the Secret that it has mounted, and ask the API through the Service that it names."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

KEY = Path("/key")
DEADLINE_SECONDS = 90.0
PAUSE_SECONDS = 0.2
UNAVAILABLE = 503


def key() -> dict[str, str]:
    """Return what the Secret holds now; the kubelet brings a rotated key into the same files."""
    return {path.name: path.read_text(encoding="utf-8") for path in KEY.iterdir() if path.is_file()}


def headers() -> dict[str, str]:
    """Return what authenticates a request."""
    secret = key()
    return {
        "X-Api-Key": secret["api-key"],
        "X-Tenant-Id": secret["tenant-id"],
        "X-Environment": secret["environment"],
    }


def connect(base_url: str = "") -> httpx2.Client:
    """Return a client of the address in the Secret, or of another one."""
    return httpx2.Client(base_url=base_url or key()["base-url"], headers=headers(), timeout=60.0)


def content(answer: httpx2.Response) -> dict[str, Any]:
    """Return what was answered, which has to be no error."""
    assert answer.status_code < 400, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    found: dict[str, Any] = answer.json()
    return found


def patient(ask: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Ask again while a pod or the database is away, as every client should; what is asked may be done twice."""

    def answer() -> httpx2.Response | None:
        try:
            found = ask()
        except httpx2.TransportError:
            return None
        return None if found.status_code == UNAVAILABLE else found

    found: httpx2.Response = until(answer)
    return found


def finished(http: httpx2.Client, job_id: str) -> dict[str, Any]:
    """Wait for a job's end."""

    def look() -> dict[str, Any] | None:
        job = content(patient(lambda: http.get(f"/jobs/{job_id}")))
        return None if job["status"] in {"queued", "running"} else job

    job: dict[str, Any] = until(look)
    return job


def until(look: Callable[[], Any]) -> Any:
    """Look again and again until there is something."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(PAUSE_SECONDS)
    return found


def tell(**found: Any) -> None:
    """Say what was found out: one line of JSON, the last one."""
    print(json.dumps(found))  # noqa: T201 - how a pod answers

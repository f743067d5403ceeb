"""What the demo does, over HTTP alone: from an empty database to an accepted match, and what stayed open."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Callable
from importlib import resources
from typing import Any, Final

import httpx2

from payrec.commands.terminal import RIGHT, say, table
from payrec.errors import PayrecError

ENVIRONMENT: Final = "production"
USERNAME: Final = "ada@acme.example"
STATEMENT: Final = "betterplace_sepa_mt9401.sta"
NAMES_MAX: Final = 26
"""Characters of a counterparty's name in a table."""


class Story:
    """The steps in their order. ``step`` is told of each when it is done."""

    def __init__(self, http: httpx2.AsyncClient, *, base_url: str, step: Callable[[str], None]) -> None:
        self._http = http
        self._base_url = base_url
        self._step = step
        self._password = secrets.token_urlsafe(12)
        self._headers: dict[str, str] = {}
        self._token_seconds = 0
        self._expected: dict[str, dict[str, Any]] = {}
        self._incoming: dict[str, dict[str, Any]] = {}
        self._proposed: list[dict[str, Any]] = []

    async def tell(self) -> None:
        """Do everything and show it.

        Raises
        ------
        PayrecError
            The service answered otherwise than it should.
        """
        await self._create_tenant()
        await self._load_expected()
        await self._upload()
        await self._match()
        self._show_proposals()
        self._show_open()
        await self._accept()

    def how_to_go_on(self) -> str:
        """Return lines for another terminal that do the same by hand."""
        token = self._headers["Authorization"].removeprefix("Bearer ")
        tenant = self._headers["X-Tenant-Id"]
        invoice = '{"direction": "credit", "amount": "1500.00", "currency": "EUR", "reference": "INV-1"}'
        post = 'curl -sS "${H[@]}" -H "Content-Type: application/json" -X POST $BASE'
        lines = [
            f"Go on by hand in another terminal (the token is good for {self._token_seconds // 60} minutes):\n",
            f"  BASE={self._base_url}",
            f"  TOKEN={token}",
            f'  H=(-H "Authorization: Bearer $TOKEN" -H "X-Tenant-Id: {tenant}" -H "X-Environment: {ENVIRONMENT}")\n',
            '  curl -sS "${H[@]}" "$BASE/matches?status=proposed&limit=1"',
            f'  curl -sS "${{H[@]}}" -X POST $BASE/matches/{self._another()}/accept',
            '  curl -sS "${H[@]}" "$BASE/expected-transactions?status=open"',
            f"  {post}/expected-transactions -d '{invoice}'",
            f"  {post}/matches/match -d '{{}}'\n",
            f"Or decide in a browser, at {self._base_url}/console, as {USERNAME} with the password {self._password}",
            f"The documentation can send requests too: {self._base_url}/api/docs",
        ]
        return "\n".join(lines)

    async def _create_tenant(self) -> None:
        admin = {"username": USERNAME, "password": self._password}
        tenant = await self._post("/tenants", {"name": "Acme GmbH", "slug": "acme", "admin": admin})
        token = await self._post("/auth/token", {"username": USERNAME, "password": self._password})
        self._token_seconds = token["expiresIn"]
        self._headers = {
            "Authorization": f"Bearer {token['accessToken']}",
            "X-Tenant-Id": tenant["id"],
            "X-Environment": ENVIRONMENT,
        }
        self._step(f"tenant acme is there with four environments; {USERNAME} has a token")

    async def _load_expected(self) -> None:
        items = json.loads(_data("expected.json"))
        for item in items:
            made = await self._post("/expected-transactions", item)
            self._expected[made["id"]] = made
        self._step(f"{len(items)} expected payments are loaded: what acme's books say should come in and go out")

    async def _upload(self) -> None:
        headers = {**self._headers, "Content-Type": "application/octet-stream"}
        answer = await self._http.post("/incoming-transactions/upload", content=_data(STATEMENT), headers=headers)
        made = _content(answer)
        checks = [b["balanceCheck"] for b in made["balances"]]
        counts = made["counts"]
        self._step(
            f"{STATEMENT} is uploaded: {made['format'].upper()}, {counts['accepted']} of {counts['records']} entries, "
            f"{len(checks)} statements; balances add up on {checks.count('ok')}"
        )

    async def _match(self) -> None:
        run = await self._post("/matches/match", {"wait": 60})
        if run["status"] != "succeeded":
            raise PayrecError(f"the matching run is {run['status']}; the log says why")
        self._step(f"matching proposes {run['counts']['proposed']} matches (engine: {run['durationMs']} ms)")
        self._proposed = await self._all("/matches")
        self._expected = {e["id"]: e for e in await self._all("/expected-transactions")}
        self._incoming = {i["id"]: i for i in await self._all("/incoming-transactions")}
        self._proposed.sort(key=lambda m: (self._item(m)["externalId"], m["amountMinor"]))

    def _show_proposals(self) -> None:
        rows = []
        for match in self._proposed:
            item, line = self._item(match), self._line(match)
            moved = _amount({**line, "amount": match["amount"]} if len(match["legs"]) > 1 else line)
            rows.append((item["externalId"], moved, match["confidence"], match["explanation"]))
        say("\nProposed, for a person to accept or reject (S: to be received, P: to be paid)\n")
        say(table(("item", "moved", "confidence", "why"), rows, widths=(0, RIGHT), wrapped=True))

    def _show_open(self) -> None:
        found = {leg["expectedTransactionId"] for m in self._proposed for leg in m["legs"]}
        rows = [
            (e["externalId"], _amount(e), e["counterpartyName"] or "", e["reasonCode"] or "")
            for e in sorted(self._expected.values(), key=lambda e: str(e["externalId"]))
            if e["id"] not in found
        ]
        say("\nExpected, and nothing proposed\n")
        say(table(("item", "expected", "counterparty", "why"), rows, widths=(0, RIGHT, NAMES_MAX, 0)))
        lines = {leg["incomingTransactionId"] for m in self._proposed for leg in m["legs"]}
        by_reason: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in self._incoming.values():
            if line["id"] not in lines:
                by_reason[line["reasonCode"] or "not said"].append(line)
        say("\nMoved, and nothing proposed (this statement holds much that acme never expected)\n")
        reasons = [
            (reason, str(len(group)), _amount(group[0]), group[0]["counterpartyName"] or group[0]["remittance"] or "")
            for reason, group in sorted(by_reason.items())
        ]
        say(table(("why", "lines", "for example", ""), reasons, widths=(0, RIGHT, RIGHT, 2 * NAMES_MAX)))
        say()

    async def _accept(self) -> None:
        match = next(m for m in self._proposed if m["confidence"] == "exact")
        accepted = await self._post(f"/matches/{match['id']}/accept", {})
        item = await self._get(f"/expected-transactions/{match['legs'][0]['expectedTransactionId']}")
        self._step(
            f"{item['externalId']} is {accepted['status']} by {USERNAME}: now {item['status']}, "
            f"{item['currency']} {item['openAmountMinor'] / 100:.2f} open"
        )
        self._proposed.remove(match)

    def _another(self) -> str:
        return str(next((m["id"] for m in self._proposed if m["confidence"] == "exact"), "ID"))

    def _item(self, match: dict[str, Any]) -> dict[str, Any]:
        return self._expected[match["legs"][0]["expectedTransactionId"]]

    def _line(self, match: dict[str, Any]) -> dict[str, Any]:
        return self._incoming[match["legs"][0]["incomingTransactionId"]]

    async def _all(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        parameters = {"limit": "200"}
        while True:
            page = _content(await self._http.get(path, params=parameters, headers=self._headers))
            found.extend(page["data"])
            if not page["hasMore"]:
                return found
            parameters["cursor"] = page["nextCursor"]

    async def _get(self, path: str) -> dict[str, Any]:
        return _content(await self._http.get(path, headers=self._headers))

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return _content(await self._http.post(path, json=body, headers=self._headers))


def _data(name: str) -> bytes:
    return (resources.files("payrec") / "demo_data" / name).read_bytes()


def _content(answer: httpx2.Response) -> dict[str, Any]:
    if answer.is_error:
        request = answer.request
        raise PayrecError(f"{request.method} {request.url.path} answered {answer.status_code}: {answer.text[:300]}")
    content: dict[str, Any] = answer.json()
    return content


def _amount(resource: dict[str, Any]) -> str:
    sign = "-" if resource["direction"] == "debit" else ""
    whole, _, cents = resource["amount"].partition(".")
    return f"{sign}{int(whole):,}.{cents} {resource['currency']}"

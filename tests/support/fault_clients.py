"""Clients who do a bit of everything, note every call, and ask again with the same key until they are answered."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import httpx2

from payrec.services.imports import INLINE_BYTES_MAX
from support.fault_history import UUID, Call, History, Row, digest, kept
from support.report_figures import EXPECTED, INCOMING, MATCHES
from support.service import Tenant

ANSWER_SECONDS: Final = 12.0
"""How long a client waits for an answer before it asks again."""

HOT: Final = 4
"""Items and lines about which all clients of a tenant decide by hand."""
HOT_MINOR: Final = 400_000
LARGE_ROWS: Final = 60
NOTES: Final = 48
NOTE_LENGTH: Final = 400
"""Of each row of a large file, so that it is larger than what a request reads itself."""
CHOICES: Final = (
    *["pairs"] * 4, *["bulk"], *["upload"] * 2, "large", *["run"] * 2, "job", *["accept"] * 4, "accept_many",
    *["reject"], *["reverse"] * 2, *["by_hand"] * 4, "classify", "restore", "ignore", *["change"] * 3, "void",
    "webhook", "export", "rotate", *["walk"] * 2, *["look"] * 3, "spy",
)  # fmt: skip


@dataclass(slots=True)
class Place:
    """A tenant, and what its clients know of it in common."""

    tenant: Tenant
    key: str
    """The API key that its clients use."""
    password: str
    others: Place | None = None
    receiver: str = ""
    told_after: int = 0
    """The place in the feed when the endpoint was made that is told of everything."""
    items: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    matches: list[str] = field(default_factory=list)
    hot_items: list[str] = field(default_factory=list)
    hot_lines: list[str] = field(default_factory=list)


class Client:
    """One client of one tenant."""

    def __init__(
        self, name: str, place: Place, urls: list[str], http: httpx2.AsyncClient, history: History, *, seed: int
    ) -> None:
        self.name, self._place, self._urls, self._http, self._history = name, place, urls, http, history
        self._chance = Random(f"{seed} {name}")  # noqa: S311 - a test's own
        self._numbers = itertools.count(1)
        self._token = place.tenant.token
        self.unanswered: list[str] = []
        """Keys of what was given up, long after everything worked again."""

    async def work(self, *, over: Callable[[], bool], give_up: Callable[[], bool]) -> None:
        """Do one thing after the other."""
        self._give_up = give_up
        while not over():
            await getattr(self, f"_{self._chance.choice(CHOICES)}")()

    async def prepare(self) -> None:
        """Store what all clients of the tenant decide about."""
        self._give_up = lambda: False
        for _ in range(HOT):
            item = await self._item(self._name(), HOT_MINOR)
            line = await self._line(self._name(), HOT_MINOR)
            self._place.hot_items.append(item["id"])
            self._place.hot_lines.append(line["id"])

    def _name(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    async def _once(
        self, op: str, method: str, path: str, *, key: str | None = None, about: str | None = None,
        basis: int | None = None, credential: dict[str, str] | None = None, body: Any = None, note: Any = None,
        **options: Any,
    ) -> tuple[Call, Any]:  # fmt: skip
        """Ask once, of either service, and note what came of it."""
        headers = {"X-Tenant-Id": self._place.tenant.id, "X-Environment": "production"}
        headers |= {"X-Api-Key": self._place.key} if credential is None else credential
        headers |= {"Idempotency-Key": key} if key is not None else {}
        headers |= {"If-Match": f'"{basis}"'} if basis is not None else {}
        if body is not None:
            options["json"] = body
        invoked, answer, status, text = time.monotonic(), None, None, b""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._http.request(
                    method, self._chance.choice(self._urls) + path, headers=headers, **options
                )
            status, text = response.status_code, response.content
            is_json = "json" in response.headers.get("content-type", "")
            answer = json.loads(text) if is_json else {"bytes": len(text)}
        except (httpx2.HTTPError, TimeoutError):
            status = None
        except ValueError:
            answer = {"code": "not_json"}
        call = Call(
            client=self.name, tenant=self._place.tenant.slug, op=op, method=method, path=path,
            body=note if note is not None else body, key=key, about=about, basis=basis, invoked=invoked,
            ended=time.monotonic(), status=status, answer=kept(answer), digest=digest(text),
            ids=tuple(sorted(set(UUID.findall(text.decode("utf-8", "replace"))))),
        )  # fmt: skip
        self._history.add(call)
        if not call.is_answered:
            await asyncio.sleep(self._chance.uniform(0.05, 0.4))
        return call, answer

    async def _surely(self, op: str, method: str, path: str, **options: Any) -> Any:
        """Change something, once: ask until there is an answer, and now and then once more; return what was done."""
        key = options.pop("key", None) or self._name()
        while True:
            if options.get("credential") is not None:
                options["credential"] = {"Authorization": f"Bearer {self._token}"}
            call, answer = await self._once(op, method, path, key=key, **options)
            if call.status == 401 and options.get("credential") is not None:
                # Its time is over by the clock of one of the services.
                await self._sign_in()
                if self._give_up():
                    return None
                continue
            if call.is_answered:
                break
            if self._give_up():
                self.unanswered.append(key)
                return None
        if call.is_done and self._chance.random() < 0.1:
            await self._once(op, method, path, key=key, **options)
        return answer if call.is_done else None

    async def _sign_in(self) -> None:
        who = {"username": f"admin@{self._place.tenant.slug}", "password": self._place.password}
        call, answer = await self._once("sign_in", "POST", "/auth/token", credential={}, body=who, note={})
        if call.is_done:
            self._token = answer["access_token"]

    async def _ask(self, op: str, path: str, **options: Any) -> Any:
        """Read something, once."""
        call, answer = await self._once(op, "GET", path, **options)
        return answer if call.is_done else None

    async def _item(self, name: str, minor: int) -> Any:
        return await self._surely("item", "POST", EXPECTED, body=item(name, minor))

    async def _line(self, name: str, minor: int) -> Any:
        return await self._surely("line", "POST", INCOMING, body=line(name, minor))

    async def _pairs(self) -> None:
        name = self._name()
        minor = self._chance.randrange(1_000, 9_000)
        for what, made in ((self._item, self._place.items), (self._line, self._place.lines)):
            answer = await what(name, minor)
            if answer is not None:
                made.append(answer["id"])

    async def _bulk(self) -> None:
        rows = [item(self._name(), 700 + n) for n in range(5)]
        await self._surely("bulk", "POST", f"{EXPECTED}/bulk", body={"items": rows})

    async def _upload(self) -> None:
        rows = [line(self._name(), 700 + n) for n in range(3)]
        await self._surely("upload", "POST", f"{INCOMING}/upload", body=rows)

    async def _large(self) -> None:
        """Upload what is not read within the request."""
        notes = {f"note{n}": "x" * NOTE_LENGTH for n in range(NOTES)}
        rows = [{**line(self._name(), 800 + n), "metadata": notes} for n in range(LARGE_ROWS)]
        content = ("\n".join(json.dumps(row) for row in rows)).encode()
        assert len(content) > INLINE_BYTES_MAX
        await self._surely(
            "upload", "POST", f"{INCOMING}/upload", note=[{"externalId": row["externalId"]} for row in rows],
            files={"file": ("lines.jsonl", content)},
        )  # fmt: skip

    async def _run(self) -> None:
        await self._surely("run", "POST", "/matches/match", body={"wait": 1})

    async def _job(self) -> None:
        answer = await self._surely("job", "POST", "/jobs", body={"kind": "match", "params": {}})
        if answer is not None and self._chance.random() < 0.3:
            await self._surely("cancel", "POST", f"/jobs/{answer['id']}/cancel", about=answer["id"])

    async def _one_match(self, status: str) -> str | None:
        answer = await self._ask("matches", MATCHES, params={"status": status, "limit": 30})
        found = [row["id"] for row in answer["data"]] if answer else []
        return self._chance.choice(found) if found else None

    async def _accept(self) -> None:
        match_id = await self._one_match("proposed")
        if match_id is not None:
            await self._surely("accept", "POST", f"{MATCHES}/{match_id}/accept", about=match_id, body={})

    async def _accept_many(self) -> None:
        answer = await self._ask("matches", MATCHES, params={"status": "proposed", "limit": 4})
        if answer and answer["data"]:
            ids = [row["id"] for row in answer["data"]]
            await self._surely("accept_many", "POST", f"{MATCHES}/accept", body={"ids": ids})

    async def _reject(self) -> None:
        match_id = await self._one_match("proposed")
        if match_id is not None:
            path = f"{MATCHES}/{match_id}/reject"
            await self._surely("reject", "POST", path, about=match_id, body={"reason": "no"})

    async def _reverse(self) -> None:
        match_id = await self._one_match("accepted")
        if match_id is not None:
            path = f"{MATCHES}/{match_id}/reverse"
            await self._surely("reverse", "POST", path, about=match_id, body={"reason": "by chance"})

    async def _by_hand(self) -> None:
        """State a match of a part of an item and a line that others take parts of as well, often of too much."""
        key, place = self._name(), self._place
        leg = {
            "expectedTransactionId": self._chance.choice(place.hot_items),
            "incomingTransactionId": self._chance.choice(place.hot_lines),
            "amountMinor": self._chance.choice((1_000, 20_000, 150_000)),
        }
        await self._surely("by_hand", "POST", MATCHES, key=key, body={"legs": [leg], "reason": key})

    async def _on_line(self, verb: str, body: Row) -> None:
        if self._place.lines:
            line_id = self._chance.choice(self._place.lines)
            await self._surely(verb, "POST", f"{INCOMING}/{line_id}/{verb}", about=line_id, body=body)

    async def _classify(self) -> None:
        await self._on_line("classify", {"category": "interest"})

    async def _ignore(self) -> None:
        await self._on_line("ignore", {"reason": "noise"})

    async def _restore(self) -> None:
        await self._on_line("restore", {})

    async def _change(self) -> None:
        """Change what nobody else has changed meanwhile."""
        path = f"{EXPECTED}/{self._chance.choice(self._place.hot_items)}"
        answer = await self._ask("look", path, about=path.rpartition("/")[2])
        if answer is not None:
            key = self._name()
            await self._surely(
                "change", "PATCH", path, key=key, about=answer["id"], basis=answer["version"], body={"description": key}
            )

    async def _void(self) -> None:
        answer = await self._item(self._name(), 333)
        if answer is not None:
            path = f"{EXPECTED}/{answer['id']}/void"
            await self._surely("void", "POST", path, about=answer["id"], body={"reason": "by chance"})

    async def _webhook(self) -> None:
        key = self._name()
        body = {"url": f"{self._place.receiver}/other", "events": ["job.failed"], "description": key}
        answer = await self._surely("webhook", "POST", "/webhooks", key=key, body=body)
        if answer is not None:
            await self._until_gone("unhook", f"/webhooks/{answer['id']}", answer["id"])

    async def _until_gone(self, op: str, path: str, about: str, credential: dict[str, str] | None = None) -> bool:
        """Delete something; to ask again does no harm."""
        while not self._give_up():
            if credential is not None:
                credential = {"Authorization": f"Bearer {self._token}"}
            call, _ = await self._once(op, "DELETE", path, about=about, credential=credential)
            if call.status == 401 and credential is not None:
                await self._sign_in()
            elif call.is_answered:
                return call.is_done
        return False

    async def _export(self) -> None:
        body = {"kind": "export", "params": {"resource": "expected-transactions", "format": "csv"}}
        answer = await self._surely("export", "POST", "/jobs", body=body)
        for _ in range(10):
            job = answer and await self._ask("look_job", f"/jobs/{answer['id']}", about=answer["id"])
            if job and job["status"] == "succeeded":
                await self._download(job)
                return
            await asyncio.sleep(0.3)

    async def _download(self, job: Row) -> None:
        made = job["result"]
        await self._once("download", "GET", made["url"], about=job["id"], note={"bytes": made["bytes"]})

    async def _rotate(self) -> None:
        """Make a key, use it, revoke it, and try it again."""
        name, admin = self._name(), {"Authorization": f"Bearer {self._token}"}
        body = {"name": name, "read": True}
        answer = await self._surely("key", "POST", "/auth/api-keys", key=name, credential=admin, body=body)
        if answer is None:
            return
        # Who asked twice has the key without its secret.
        credential = {"X-Api-Key": answer["apiKey"]} if answer.get("apiKey") else None
        path = f"/auth/api-keys/{answer['id']}"
        for op in ("use", "revoke", "use", "use"):
            if op == "revoke":
                await self._until_gone(op, path, answer["id"], admin)
            elif credential is not None:
                await self._once(op, "GET", EXPECTED, about=answer["id"], credential=credential, params={"limit": 1})

    async def _walk(self) -> None:
        """Read a list from its beginning to its end, or until a page does not come."""
        began, parameters, seen = time.monotonic(), {"limit": self._chance.randrange(20, 201)}, list[list[Any]]()
        path = self._chance.choice((EXPECTED, INCOMING))
        while True:
            answer = None
            for _ in range(5):
                answer = await self._ask("page", path, params=parameters)
                if answer is not None:
                    break
            if answer is None:
                return
            seen += [[row["id"], row["version"], row["status"]] for row in answer["data"]]
            if not answer["hasMore"]:
                break
            parameters = {**parameters, "cursor": answer["nextCursor"]}
        self._history.add(
            Call(
                client=self.name, tenant=self._place.tenant.slug, op="walk", method="GET", path=path, invoked=began,
                ended=time.monotonic(), status=200, answer={"seen": seen},
            )
        )  # fmt: skip

    async def _look(self) -> None:
        match_id = await self._one_match(self._chance.choice(("proposed", "accepted", "reversed")))
        if match_id is not None:
            for _ in range(2):
                await self._ask("look", f"{MATCHES}/{match_id}", about=match_id)

    async def _spy(self) -> None:
        """Ask for what belongs to the other tenant."""
        theirs = self._place.others
        if theirs is not None and theirs.hot_items:
            about = self._chance.choice(theirs.hot_items)
            await self._ask("spy", f"{EXPECTED}/{about}", about=about)


def item(name: str, minor: int) -> Row:
    """Return an expected transaction."""
    return {
        "externalId": name, "reference": f"INV {name}", "direction": "credit", "currency": "EUR",
        "amountMinor": minor, "dueDate": "2026-03-10",
    }  # fmt: skip


def line(name: str, minor: int) -> Row:
    """Return a line that pays the item of the same name."""
    return {
        "externalId": name, "remittance": f"Invoice INV {name}", "direction": "credit", "currency": "EUR",
        "amountMinor": minor, "bookingDate": "2026-03-09", "account": "GIRO",
    }  # fmt: skip

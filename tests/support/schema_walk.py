"""A walk of two tenants through an OpenAPI document: what answers tell of ids goes into later requests, of both.

It runs in a process of its own for the reason that ``schema_probe`` does. Reads ``{baseUrl, document, operations,
seconds, tenants: [{headers, ids, secret}, {…}]}`` as JSON from standard input and writes how many requests of each kind
were sent, how many succeeded, which operations were asked for something of the other tenant, and what was wrong.

Half of a tenant's ids are bait, which the other one may say. The rest it can only have from an answer.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.core.failures import FailureGroup

from support.schema_probe import CHECKS

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OF_IDS = re.compile(r"(?:^|[a-z])[iI]ds?$")
"""Members of bodies and parameters that name something by its id, or by one of somebody else's."""

UNKNOWN = {403, 404}
INVALID = {400, 413, 415, 422, 428}
"""What is refused before anything is looked for."""

CREDENTIALS = {"Authorization", "X-Api-Key", "X-Tenant-Id", "X-Environment"}

LEFT_ALONE = {("PATCH", "/tenants/{tenant_id}"), ("PATCH", "/tenants/{tenant_id}/settings")}
"""What would take a tenant's own environments and rights away."""


class Walk:
    """Two tenants, what each knows, and what was wrong."""

    def __init__(self, task: dict[str, Any], session: requests.Session) -> None:
        self._task = task
        self._session = session
        self._tenants = task["tenants"]
        self._schema = schemathesis.openapi.from_dict(task["document"])
        self._strategies: dict[tuple[str, str], st.SearchStrategy[schemathesis.Case]] = {}
        self._known: list[dict[str, list[str]]] = [
            {collection: [one] for collection, one in tenant["ids"].items()} for tenant in self._tenants
        ]
        self._seen: list[set[str]] = [{one for ids in known.values() for one in ids} for known in self._known]
        """Ids that are a tenant's."""
        self._said: list[set[str]] = [set(), set()]
        """Ids that a tenant has said itself, and so may hear again."""
        self.sent: Counter[str] = Counter()
        self.asked: set[str] = set()
        """Operations that were asked for something of the other tenant and did not find it."""
        self.failures: dict[str, str] = {}

    def steps(self) -> Iterator[tuple[str, str, int, str]]:
        """Yield what to ask, again and again: method, path, which tenant, and whose ids or name it says."""
        kinds = ("own", "other", "name")
        for turn in count():
            for place, (method, path) in enumerate(self._task["operations"]):
                whose = kinds[(place + turn) % len(kinds)]
                if whose != "own" or (method, path) not in LEFT_ALONE:
                    yield from ((method, path, actor, whose) for actor in (0, 1))

    def take(self, number: int, *step: Any) -> None:
        """Ask twice: for the simplest of what there is to say, and for anything."""

        @seed(number)
        @settings(
            max_examples=2,
            deadline=None,
            database=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        @given(data=st.data())
        def send(data: st.DataObject) -> None:
            self.step(data, *step)

        send()

    def step(self, data: st.DataObject, method: str, path: str, actor: int, whose: str) -> None:
        """Send one request and look at its answer."""
        case = data.draw(self._strategy(method, path))
        owner = 1 - actor if whose == "other" else actor
        told = self._placed(data, case, path, owner)
        headers = dict(self._tenants[actor]["headers"])
        # Who asks is no chance.
        case.headers = {name: one for name, one in (case.headers or {}).items() if name.title() not in CREDENTIALS}
        if whose == "name":
            headers["X-Tenant-Id"] = self._tenants[1 - actor]["headers"]["X-Tenant-Id"]
        answer = case.call(base_url=self._task["baseUrl"], session=self._session, headers=headers)
        if answer.content == b"Invalid HTTP request received.":
            return  # A request line beyond what the server reads; no application has seen it.
        self.sent[whose] += 1
        self.sent[f"{whose} {answer.status_code // 100}xx"] += 1
        asked = f"{case.as_curl_command()} -> {answer.status_code} {answer.text}"
        if whose == "name" and answer.status_code != 403:
            self._fail(f"{method} {path} let the other tenant be named", asked)
        if whose == "other" and told:
            if answer.status_code in UNKNOWN:
                self.asked.add(f"{method} {path}")
            elif answer.status_code not in INVALID:
                self._fail(f"{method} {path} knew something of the other tenant", asked)
        self._look_at(answer, actor, f"{method} {path}", asked)
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                self._fail(f"{method} {path}: {type(failure).__name__} {answer.status_code}", f"{failure} {asked}")
        if answer.status_code < 300:
            self._learn(answer, actor, path)

    def _strategy(self, method: str, path: str) -> st.SearchStrategy[schemathesis.Case]:
        if (method, path) not in self._strategies:
            operation = self._schema[path][method]
            self._strategies[method, path] = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
        return self._strategies[method, path]

    def _placed(self, data: st.DataObject, case: schemathesis.Case, path: str, owner: int) -> bool:
        """Put ids of a tenant into a request; tell whether one is in its path."""
        collection, brace, rest = path.partition("/{")
        pool = [one for ids in self._known[owner].values() for one in ids if _is_bait(one)]
        case.body = _with_ids(data, case.body, pool)
        if case.query:
            case.query = _with_ids(data, case.query, pool)
        if not brace:
            return False
        known = self._known[owner].get(collection, [])
        known = [one for one in known if _is_bait(one)] or known or pool
        case.path_parameters = {**case.path_parameters, rest.partition("}")[0]: data.draw(st.sampled_from(known))}
        return True

    def _look_at(self, answer: Any, actor: int, name: str, asked: str) -> None:
        """Search an answer for what is the other's and was not in what was asked so far."""
        sent = answer.request.body or b""
        sent = sent.decode(errors="replace") if isinstance(sent, bytes) else sent
        self._said[actor] |= set(UUID.findall(answer.request.url + sent))
        text = answer.text + repr(answer.headers)
        if set(UUID.findall(text)) & self._seen[1 - actor] - self._said[actor]:
            self._fail(f"{name} told an id of the other tenant", asked)
        if self._tenants[1 - actor]["secret"] in text:
            self._fail(f"{name} told a text of the other tenant", asked)

    def _learn(self, answer: Any, actor: int, path: str) -> None:
        """Take the ids of an answer: they are the tenant's own unless it has said them."""
        self._seen[actor] |= set(UUID.findall(answer.text)) - self._said[actor] - self._seen[1 - actor]
        collection = path.partition("/{")[0]
        body = answer.json() if "json" in answer.headers.get("content-type", [""])[0] else None
        if not isinstance(body, dict):
            return
        found = [body.get("id"), *(one.get("id") for one in body.get("data") or [] if isinstance(one, dict))]
        for one in [(collection, found), ("/jobs", [body.get("jobId")])]:
            known = self._known[actor].setdefault(one[0], [])
            known += [i for i in one[1] if i in self._seen[actor] and i not in known]

    def _fail(self, what: str, asked: str) -> None:
        self.failures.setdefault(what, asked[:2000])


def _is_bait(identifier: str) -> bool:
    return identifier[-1] in "01234567"


def _with_ids(data: st.DataObject, value: Any, pool: list[str]) -> Any:
    """Return a body or parameters with ids out of the pool wherever an id is said."""
    if isinstance(value, list):
        return [_with_ids(data, one, pool) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: data.draw(st.sampled_from(pool))
        if isinstance(one, str) and OF_IDS.search(name) and pool
        else _with_ids(data, one, pool)
        for name, one in value.items()
    }


def main() -> None:
    """Walk as standard input says, until the time is over."""
    task = json.load(sys.stdin)
    ends = time.monotonic() + task["seconds"]
    with requests.Session() as session:
        walk = Walk(task, session)
        for number, step in enumerate(walk.steps()):
            if time.monotonic() > ends:
                break
            walk.take(number, *step)
        json.dump({"sent": walk.sent, "asked": sorted(walk.asked), "failures": walk.failures}, sys.stdout)


if __name__ == "__main__":
    main()

"""Rate limits of requests: who is charged, who is refused, and what every answer tells about it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from throttled import MemoryStore, utils

from payrec.domain.principal import Principal
from payrec.domain.scope import TenantScope
from payrec.embedded.postgres import EmbeddedPostgres
from payrec.errors import RateLimitedError
from payrec.metrics import Metrics
from payrec.services import limits
from payrec.services.limits import Limit, RequestLimits
from support.postgres import cloned
from support.service import Service, Tenant, make_config, running
from support.wire import add_key, ask, code, problem

pytestmark = pytest.mark.anyio

PRINCIPAL, TENANT, UPLOADS = 4, 8, 2
LIST = "/expected-transactions?limit=1"
UPLOAD = "/incoming-transactions/upload"
LINE = b'{"direction":"credit","amountMinor":1,"currency":"EUR","bookingDate":"2026-03-01"}\n'
MEMBER = re.compile(r'"([a-z]+)";([qr])=([0-9]+);([wt])=([0-9]+)')


@dataclass
class StoppedClock:
    """The clock of the buckets, which moves when it is told to."""

    now: float = 1024.0

    def __call__(self) -> float:
        return self.now

    def rest(self) -> None:
        """Let every bucket fill."""
        self.now += 1024


@pytest.fixture(scope="module")
def stopped() -> Iterator[StoppedClock]:
    clock, real = StoppedClock(), utils.now_mono_f
    utils.now_mono_f = clock
    try:
        yield clock
    finally:
        utils.now_mono_f = real


@pytest.fixture
def clock(stopped: StoppedClock) -> StoppedClock:
    """Return the clock, with every bucket full."""
    stopped.rest()
    return stopped


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres, stopped: StoppedClock) -> AsyncIterator[Service]:
    settings = {
        "rate_limit_principal_per_second": PRINCIPAL,
        "rate_limit_tenant_per_second": TENANT,
        "rate_limit_uploads_per_minute": UPLOADS,
    }
    assert utils.now_mono_f is stopped
    with cloned(postgres) as made:
        async with running(make_config(made, **settings), worker=False) as started:
            yield started


async def by_key(tenant: Tenant, clock: StoppedClock, environment: str = "production", **given: Any) -> dict[str, str]:
    """Return the headers of a new key, with every bucket full."""
    key = await add_key(tenant, environment, **given)
    clock.rest()
    return {"X-Api-Key": key["apiKey"], "X-Tenant-Id": tenant.id, "X-Environment": environment}


def told(response: httpx2.Response, field: str = "ratelimit") -> dict[str, tuple[int, int]]:
    """Return the two numbers of each member of a field, after their names were looked at."""
    found = {}
    for member in filter(None, response.headers.get(field, "").split(", ")):
        item = MEMBER.fullmatch(member)
        assert item is not None, member
        assert item[2] + item[4] == ("rt" if field == "ratelimit" else "qw")
        found[item[1]] = (int(item[3]), int(item[5]))
    return found


def refused(response: httpx2.Response, detail: str) -> int:
    """Return the seconds of Retry-After of an answer that refuses for this reason."""
    found = problem(response)
    assert (response.status_code, found["code"]) == (429, "rate_limited"), response.text
    assert detail in found["detail"]
    return int(response.headers["retry-after"])


def counted(service: Service, limit: str) -> float:
    registry = service.factory.context.metrics.registry
    return registry.get_sample_value("payrec_rate_limited_total", {"limit": limit}) or 0.0


async def upload(tenant: Tenant, headers: dict[str, str]) -> httpx2.Response:
    return await ask(tenant, "POST", UPLOAD, {**headers, "Content-Type": "application/x-ndjson"}, content=LINE)


async def test_an_answer_tells_the_limits_and_what_is_left(acme: Tenant, clock: StoppedClock) -> None:
    key = await by_key(acme, clock)
    answer = await ask(acme, "GET", LIST, key)
    assert answer.headers["ratelimit-policy"] == '"principal";q=4;w=1, "tenant";q=8;w=1'
    assert answer.headers["ratelimit"] == '"principal";r=3;t=1, "tenant";r=7;t=1'
    answer = await upload(acme, key)
    assert answer.headers["ratelimit-policy"] == '"principal";q=4;w=1, "tenant";q=8;w=1, "uploads";q=2;w=60'
    assert answer.headers["ratelimit"] == '"principal";r=2;t=1, "tenant";r=6;t=1, "uploads";r=1;t=30'


async def test_every_answer_to_somebody_known_tells_them(acme: Tenant, clock: StoppedClock) -> None:
    key = await by_key(acme, clock)
    again = {**key, "Idempotency-Key": uuid4().hex}
    body = {"direction": "credit", "amountMinor": 100, "currency": "EUR"}
    both = {"principal", "tenant"}
    asked: list[tuple[int, str, str, dict[str, str], Any, set[str]]] = [
        (200, "HEAD", LIST, key, None, both),
        (201, "POST", "/expected-transactions", again, body, both),
        (201, "POST", "/expected-transactions", again, body, both),
        (404, "GET", f"/expected-transactions/{uuid4()}", key, None, both),
        (422, "POST", "/expected-transactions", key, {}, both),
        (415, "POST", "/expected-transactions", {**key, "Content-Type": "text/plain"}, {}, both),
        (403, "GET", "/auth/api-keys", key, None, {"principal"}),
        (403, "GET", LIST, {**key, "X-Environment": "test"}, None, {"principal"}),
        (400, "GET", LIST, {k: v for k, v in key.items() if k != "X-Tenant-Id"}, None, {"principal"}),
    ]
    for status, method, path, headers, json, names in asked:
        clock.rest()
        answer = await ask(acme, method, path, headers, json=json)
        assert answer.status_code == status, (method, path, answer.text)
        assert set(told(answer)) == set(told(answer, "ratelimit-policy")) == names
        assert told(answer)["principal"] == (PRINCIPAL - 1, 1)
    assert (await ask(acme, "POST", "/expected-transactions", again, json=body)).headers["idempotency-replayed"]


async def test_nobody_unknown_is_told_or_counted(service: Service, acme: Tenant, clock: StoppedClock) -> None:
    key = await by_key(acme, clock)
    asked = [
        (401, "GET", LIST, {k: v for k, v in key.items() if k != "X-Api-Key"}),
        (401, "GET", LIST, {**key, "X-Api-Key": "pr_x"}),
        (401, "GET", LIST, {**acme.headers(), "Authorization": "Bearer a.b.c"}),
        (404, "GET", "/nowhere", key),
        (405, "DELETE", "/expected-transactions", key),
        (200, "GET", "/api/health", key),
        (200, "GET", "/api/openapi.json", key),
    ]
    kept = len(service.factory.request_limits._principal[0]._limiter._store._backend._client)  # type: ignore[attr-defined]
    for status, method, path, headers in asked * PRINCIPAL:
        answer = await ask(acme, method, path, headers)
        assert answer.status_code == status, (method, path)
        assert not {"ratelimit", "ratelimit-policy", "retry-after"} & set(answer.headers)
    assert len(service.factory.request_limits._principal[0]._limiter._store._backend._client) == kept  # type: ignore[attr-defined]


async def test_a_principal_has_a_bucket_of_its_own(
    service: Service, acme: Tenant, globex: Tenant, clock: StoppedClock
) -> None:
    other, third = await by_key(acme, clock), await by_key(globex, clock)
    key = await by_key(acme, clock)
    before = counted(service, "principal")
    for left in reversed(range(PRINCIPAL)):
        answer = await ask(acme, "GET", LIST, key)
        assert (answer.status_code, told(answer)["principal"][0]) == (200, left)
    answer = await ask(acme, "GET", LIST, key)
    assert refused(answer, "with these credentials") == 1
    assert told(answer) == {"principal": (0, 1), "tenant": (TENANT - PRINCIPAL, 1)}
    assert counted(service, "principal") == before + 1
    key_id = (await acme.get("/auth/api-keys")).json()["data"][-1]["id"]
    assert acme.id not in answer.text
    assert key_id not in answer.text
    for tenant, headers in ((acme, other), (globex, third), (acme, acme.headers())):
        assert (await ask(tenant, "GET", LIST, headers)).status_code == 200


async def test_who_hammers_gets_through_as_soon_as_who_waits(acme: Tenant, clock: StoppedClock) -> None:
    key = await by_key(acme, clock)
    for _ in range(PRINCIPAL):
        assert (await ask(acme, "GET", LIST, key)).status_code == 200
    for _ in range(5 * TENANT):
        answer = await ask(acme, "GET", LIST, key)
        refused(answer, "with these credentials")
        # What is refused to one principal is not taken from the others.
        assert told(answer)["tenant"][0] == TENANT - PRINCIPAL
    clock.now += 1 / PRINCIPAL
    assert (await ask(acme, "GET", LIST, key)).status_code == 200
    assert (await ask(acme, "GET", LIST, key)).status_code == 429


async def test_the_principals_of_an_environment_share_its_bucket(
    service: Service, acme: Tenant, globex: Tenant, clock: StoppedClock
) -> None:
    elsewhere, other = await by_key(acme, clock, "test"), await by_key(globex, clock)
    keys = [await by_key(acme, clock) for _ in range(3)]
    before = counted(service, "tenant")
    for key in keys[:2]:
        for _ in range(PRINCIPAL):
            assert (await ask(acme, "GET", LIST, key)).status_code == 200
    for left in reversed(range(PRINCIPAL)):
        answer = await ask(acme, "GET", LIST, keys[2])
        assert refused(answer, "for this environment") == 1
        assert told(answer) == {"principal": (left, 1), "tenant": (0, 1)}
    assert counted(service, "tenant") == before + PRINCIPAL
    for tenant, headers in ((acme, elsewhere), (globex, other)):
        answer = await ask(tenant, "GET", LIST, headers)
        assert (answer.status_code, told(answer)["tenant"][0]) == (200, TENANT - 1)


async def test_what_is_forbidden_is_told_before_what_is_too_much(acme: Tenant, clock: StoppedClock) -> None:
    reader = await by_key(acme, clock, write=False)
    body = {"direction": "credit", "amountMinor": 100, "currency": "EUR"}
    for number in range(2 * PRINCIPAL):
        answer = await ask(acme, "POST", "/expected-transactions", reader, json=body)
        assert code(answer) == "insufficient_permission"
        # It is counted for the principal, and not for the environment, where it has not come.
        assert told(answer) == {"principal": (max(PRINCIPAL - 1 - number, 0), 1)}
    answer = await ask(acme, "GET", LIST, reader)
    refused(answer, "with these credentials")
    assert told(answer)["tenant"][0] == TENANT
    # A body that is no JSON is told after that.
    writer = await by_key(acme, clock)
    for _ in range(PRINCIPAL):
        await ask(acme, "GET", LIST, writer)
    headers = {**writer, "Content-Type": "application/json"}
    refused(await ask(acme, "POST", "/expected-transactions", headers, content=b"{"), "with these credentials")


async def test_uploads_have_a_limit_of_their_own(
    service: Service, acme: Tenant, globex: Tenant, clock: StoppedClock
) -> None:
    other, elsewhere, key = await by_key(globex, clock), await by_key(acme, clock, "test"), await by_key(acme, clock)
    before = counted(service, "uploads")
    for left in reversed(range(UPLOADS)):
        answer = await upload(acme, key)
        assert answer.status_code < 300, answer.text
        assert told(answer)["uploads"][0] == left
    clock.now += 15
    for _ in range(PRINCIPAL):
        answer = await upload(acme, key)
        assert refused(answer, "too many uploads") == 15
        # What is refused as an upload is not taken from the other requests either.
        assert told(answer)["tenant"][0] == TENANT
    assert counted(service, "uploads") == before + PRINCIPAL
    clock.now += 1
    assert (await ask(acme, "GET", LIST, key)).status_code == 200
    for tenant, headers in ((acme, elsewhere), (globex, other)):
        assert told(await upload(tenant, headers))["uploads"][0] == UPLOADS - 1
    clock.now += 14
    assert (await upload(acme, key)).status_code < 300


async def test_an_environment_without_requests_left_takes_no_upload_out_of_its_bucket(
    acme: Tenant, clock: StoppedClock
) -> None:
    keys = [await by_key(acme, clock) for _ in range(3)]
    for key in keys[:2]:
        for _ in range(PRINCIPAL):
            await ask(acme, "GET", LIST, key)
    for _ in range(PRINCIPAL):
        answer = await upload(acme, keys[2])
        refused(answer, "too many requests")
        assert told(answer)["uploads"] == (UPLOADS, 0)


async def test_zero_is_no_limit(postgres: EmbeddedPostgres) -> None:
    with cloned(postgres) as made:
        async with running(make_config(made), worker=False) as unlimited:
            tenant = await unlimited.tenant("acme", environments=["production"])
            for _ in range(50):
                answer = await tenant.get(LIST)
                assert answer.status_code == 200
                assert not {"ratelimit", "ratelimit-policy"} & set(answer.headers)


@pytest.mark.parametrize(
    ("limit", "window_seconds", "replicas", "policy"),
    [
        (500, 1, 1, "q=500;w=1"),
        (500, 1, 3, "q=166;w=1"),
        (4, 1, 4, "q=1;w=1"),
        (7, 1, 4, "q=1;w=1"),
        (1, 1, 4, "q=1;w=4"),
        (2, 1, 5, "q=1;w=3"),
        (60, 60, 1, "q=60;w=60"),
        (60, 60, 7, "q=8;w=60"),
        (3, 60, 7, "q=1;w=140"),
    ],
)
def test_a_process_announces_its_share_in_whole_numbers(
    limit: int, window_seconds: int, replicas: int, policy: str
) -> None:
    made = Limit("tenant", limit=limit, window_seconds=window_seconds, replicas=replicas, store=MemoryStore())
    assert made.policy == f'"tenant";{policy}'


def scope_of(number: int) -> TenantScope:
    made = {"environment": "test", "slug": f"t{number}", "schema_name": "s", "role_name": "r"}
    return TenantScope(tenant_id=uuid4(), environment_id=uuid4(), **made)


@given(
    limit=st.integers(1, 40),
    window_seconds=st.sampled_from([1, 60]),
    replicas=st.integers(1, 5),
    steps=st.lists(st.tuples(st.sampled_from([0, 0.125, 0.5, 1, 8, 64]), st.integers(1, 20)), max_size=40),
)
def test_a_share_is_never_exceeded_and_what_is_told_is_true(
    limit: int, window_seconds: int, replicas: int, steps: list[tuple[float, int]]
) -> None:
    clock, real = StoppedClock(), utils.now_mono_f
    utils.now_mono_f = clock
    try:
        bucket = Limit("tenant", limit=limit, window_seconds=window_seconds, replicas=replicas, store=MemoryStore())
        passed: list[float] = []
        for seconds, times in steps:
            clock.now += seconds
            for _ in range(times):
                left = bucket.look("k")
                if left.remaining == 0:
                    clock.now += bucket.retry_after_seconds(left)
                    left = bucket.look("k")
                    assert left.remaining >= 1
                after = bucket.take("k")
                passed.append(clock.now)
                # Rounding may show one less than there is, and never one more.
                assert left.remaining - 2 <= after.remaining <= left.remaining - 1
        rate = limit / window_seconds / replicas
        for first, began in enumerate(passed):
            for last in range(first, len(passed)):
                assert last - first + 1 <= bucket.quota + (passed[last] - began) * rate + 1e-6
    finally:
        utils.now_mono_f = real


def test_the_buckets_of_a_process_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RATE_LIMIT_BUCKETS_MAX", 10)
    made = RequestLimits(
        principal_per_second=1, tenant_per_second=1, uploads_per_minute=1, replicas=1_000, metrics=Metrics()
    )
    for number in range(50):
        made.admit(made.begin(Principal(kind="user", id=uuid4(), tenant_id=uuid4())), scope_of(number), upload=True)
    assert len(made._principal[0]._limiter._store._backend._client) == 10  # type: ignore[attr-defined]


def test_the_longest_wait_is_the_one_that_is_told() -> None:
    made = RequestLimits(
        principal_per_second=1, tenant_per_second=0, uploads_per_minute=1, replicas=100, metrics=Metrics()
    )
    scope = scope_of(1)
    person = Principal(kind="user", id=uuid4(), tenant_id=uuid4())
    made.admit(made.begin(person), scope, upload=True)
    with pytest.raises(RateLimitedError) as error:
        made.admit(made.begin(person), scope, upload=True)
    assert "uploads" in error.value.detail
    assert 5_990 <= int(error.value.headers["Retry-After"]) <= 6_000
    with pytest.raises(RateLimitedError) as error:
        made.admit(made.begin(person), scope, upload=False)
    assert "credentials" in error.value.detail
    assert 90 <= int(error.value.headers["Retry-After"]) <= 100

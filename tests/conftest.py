"""Fixtures of the whole suite: one PostgreSQL server a test process, a cloned database for each module or test."""

from __future__ import annotations

import functools
import os
import ssl
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from typing import Any, cast

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from payrec.embedded.postgres import EmbeddedDatabase, EmbeddedPostgres
from support import citus, failures, pooled, tiers
from support.leaks import SESSION
from support.postgres import cloned, server
from support.service import Service, Tenant, make_config, running
from support.tiers import pytest_addoption

__all__ = ["pytest_addoption"]

# Property tests: the same examples every time. A busy machine makes an example slow, which is no finding about the
# code; times are bounded by tests of their own.
settings.register_profile("payrec", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("payrec")


def pytest_configure(config: pytest.Config) -> None:
    """Tell failures at once, and take skips for failures where no skip is allowed."""
    tiers.register(config)
    failures.register(config)
    _share_the_cores()
    _read_certificates_once()


def _share_the_cores() -> None:
    """Leave the cores to the processes that test at once, where there are several: small frames gain by one thread."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _read_certificates_once() -> None:
    """Keep what clients trust: it takes 50 ms to read, each of them reads it, and hardly one uses it."""
    read = httpcore2.default_ssl_context

    @functools.cache
    def kept(**given: Any) -> ssl.SSLContext:
        return read(_trust_env=given["trust_env"])

    def default_ssl_context(*, _trust_env: bool = True) -> ssl.SSLContext:
        named = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
        return kept(trust_env=_trust_env, **named)

    pytest.MonkeyPatch().setattr(httpcore2, "default_ssl_context", default_ssl_context)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not so on Citus, where the tests run there."""
    tiers.leave_out(config, items)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the service does."""
    return "asyncio"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Collect log lines again, whatever the test before made of the logging."""
    SESSION.listen()


@pytest.fixture(scope="session", autouse=True)
def _no_credential_is_written() -> Iterator[None]:
    """Fail the run when a credential that a test used was written anywhere; torn down after everything else."""
    with SESSION.watching():
        yield


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """Return the server, with a migrated template database."""
    if request.config.getoption("--citus"):
        with citus.server() as cluster:
            # It has what the fixtures below need.
            yield cast("EmbeddedPostgres", cluster)
        return
    with warnings.catch_warnings():
        # The embedded server's package warns about XDG_RUNTIME_DIR on machines without a login session.
        warnings.simplefilter("ignore")
        with server() as started:
            pooler = pooled.SESSION.before(started) if request.config.getoption("--pooled") else nullcontext()
            with pooler:
                yield started


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[EmbeddedDatabase]:
    """Return a database of the test's own."""
    with cloned(postgres) as made:
        yield made


@pytest.fixture(scope="module")
async def service(postgres: EmbeddedPostgres) -> AsyncIterator[Service]:
    """Return a service with its worker, shared by the module's tests: each makes tenants of its own."""
    with cloned(postgres) as made:
        async with running(make_config(made)) as started:
            yield started


@pytest.fixture(scope="module")
async def acme(service: Service) -> Tenant:
    """Return a tenant with two environments."""
    return await service.tenant("acme", environments=["production", "test"])


@pytest.fixture(scope="module")
async def globex(service: Service) -> Tenant:
    """Return another tenant."""
    return await service.tenant("globex", environments=["production", "test"])

"""The two roles of ``roles.sql``: enough for everything, and no more than is documented."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from support.books import keep_books
from support.installations import MASTER, Installation
from support.places import look
from support.service import Service, Tenant, make_config, running

pytestmark = pytest.mark.anyio

SERVICE, ADMIN = "payrec_service", "payrec_admin"


@pytest.fixture(scope="module")
async def service(installed: Installation) -> AsyncIterator[Service]:
    async with running(make_config(installed.database)) as started:
        yield started


@pytest.fixture(scope="module")
async def acme(service: Service) -> Tenant:
    return await service.tenant("acme")


@pytest.fixture(scope="module")
async def globex(service: Service) -> Tenant:
    return await service.tenant("globex")


async def attributes(installed: Installation, role: str) -> dict[str, Any]:
    """Return what PostgreSQL says of a role."""
    query = "SELECT to_jsonb(r) FROM pg_roles r WHERE rolname = %s"
    [(found,)] = await look(installed.database.superuser_url, query, role)
    assert isinstance(found, dict)
    return found


async def test_an_upload_and_a_run_work_with_these_roles(acme: Tenant, globex: Tenant) -> None:
    for tenant in (acme, globex):
        await keep_books(tenant)


async def test_neither_role_can_more_than_it_must(installed: Installation, acme: Tenant) -> None:
    assert acme.slug
    for role, creates in ((SERVICE, False), (ADMIN, True)):
        found = await attributes(installed, role)
        assert found["rolcreaterole"] is creates
        for name in ("rolsuper", "rolcreatedb", "rolreplication", "rolbypassrls"):
            assert found[name] is False, (role, name)
    assert (await attributes(installed, SERVICE))["rolinherit"] is False


async def test_the_login_role_owns_nothing_and_sees_no_table_by_itself(installed: Installation, acme: Tenant) -> None:
    assert acme.slug
    owned = """
        SELECT count(*) FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
        WHERE r.rolname = %s AND d.deptype = 'o'
    """
    assert await look(installed.database.superuser_url, owned, SERVICE) == [(0,)]
    tables = """
        SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'S') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
            AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, 'USAGE')
                ELSE has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE') END
    """
    assert await look(installed.database.url, tables) == []
    schemas = "SELECT nspname FROM pg_namespace WHERE has_schema_privilege(oid, 'CREATE')"
    assert await look(installed.database.url, schemas) == []
    creates = "SELECT has_database_privilege(current_database(), 'CREATE')"
    assert await look(installed.database.url, creates) == [(False,)]


async def test_the_login_role_becomes_these_roles_and_inherits_none(installed: Installation, acme: Tenant) -> None:
    query = """
        SELECT g.rolname, m.inherit_option, m.set_option, m.admin_option FROM pg_auth_members m
        JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = %s
    """
    found = await look(installed.database.superuser_url, query, SERVICE)
    groups = {"payrec_control", "payrec_authentication", "payrec_jobs"}
    names = {str(name) for name, *_ in found}
    assert groups < names
    tenants = [name for name in names - groups if name.startswith(f"payrec_{acme.id.replace('-', '')}_")]
    assert len(tenants) == 4
    assert all(name.rpartition("_")[2] in {"development", "staging", "production", "test"} for name in names - groups)
    assert {(inherits, sets, administers) for _, inherits, sets, administers in found} == {(False, True, False)}


async def test_the_administrating_role_reads_no_tenant_but_by_its_role(installed: Installation, acme: Tenant) -> None:
    async with await psycopg.AsyncConnection.connect(installed.database.admin_url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("SELECT * FROM acme_production.incoming_transaction")
        role = f"payrec_{acme.id.replace('-', '')}_production"
        await connection.execute(f'SET ROLE "{role}"'.encode())
        await connection.execute("SELECT * FROM acme_production.incoming_transaction")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("SELECT * FROM globex_production.incoming_transaction")


async def test_nobody_else_may_connect(installed: Installation) -> None:
    query = """
        SELECT r.rolname FROM pg_roles r WHERE has_database_privilege(r.oid, 'payrec', 'CONNECT')
            AND r.rolcanlogin AND NOT r.rolsuper ORDER BY 1
    """
    await look(installed.database.superuser_url, "CREATE ROLE stranger LOGIN")
    # The master owns the database, which is what made it.
    assert await look(installed.database.superuser_url, query) == [(MASTER,), (ADMIN,), (SERVICE,)]


async def test_connections_are_in_utc_whatever_they_say(installed: Installation) -> None:
    assert await look(installed.database.url, "SHOW timezone") == [("UTC",)]

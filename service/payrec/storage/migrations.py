"""Alembic for both trees, and the roles around them. Runs blocking, over the administrator's connection.

Order: roles and schemas that everything else needs (idempotent, at every migration), the control tree, then each
tenant environment that is behind, in its own transaction, under the role that owns it. Alembic keeps its context in
module globals: one process runs one migration at a time, and several at once need several processes. It is loaded by
who migrates; everybody else only asks which revisions there are.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql
from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import DBAPIError

from payrec.errors import MigrationFailedError, ProvisioningDeniedError, UnavailableError
from payrec.storage.addresses import missing_bounds
from payrec.storage.database import AUTHENTICATION_ROLE, CONTROL_ROLE, JOBS_ROLE, TENANT_GROUP_ROLE
from payrec.storage.ddl import statements_of
from payrec.tables.base import CONTROL_SCHEMA

if TYPE_CHECKING:
    from alembic.config import Config as AlembicConfig
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

JOBS_SCHEMA: Final = "jobs"
"""The schema of the job queue's own tables."""

LOCK_TIMEOUT: Final = "5s"
"""A migration that cannot get a table lock gives up, before requests queue behind it."""

TENANT_LOCK_TIMEOUT: Final = "200ms"
"""The same in a tenant's schema, where it is tried again.

A migration has locked some tables when it waits for the next one, and a request that holds that may wait for one of
them. PostgreSQL breaks off either when a second of that is over (``deadlock_timeout``): the request would fail.
"""

TENANT_LOCK_TRIES: Final = 100
"""How often it is tried: some 20 s in all."""

ADVISORY_LOCK_TIMEOUT: Final = "60s"
"""How long a migration waits for another one of the same schema to end."""

_OTHERS_FIRST: Final = frozenset({"LockNotAvailable", "DeadlockDetected"})
"""Errors of a migration that others were in the way of."""

_ON_COORDINATOR: Final = "SET LOCAL citus.enable_ddl_propagation = off"
"""What belongs to no environment stays on the coordinator of a Citus cluster. Others ignore the setting."""

_ROLES_ON_WORKERS: Final = "SET LOCAL citus.enable_create_role_propagation = {}"
"""Roles of environments belong to a group, which the workers need for it. Who may enter a door is the coordinator's."""

_ALEMBIC: Final = threading.Lock()
"""Held while Alembic's context is in its module globals."""

_ADVISORY_LOCK: Final = 0x7061_7972_6563
"""Key of the advisory lock under which only one migration works at a time."""


_REVISION: Final = re.compile(r"^(revision|down_revision) = (?:None|['\"](.+)['\"])$", re.MULTILINE)
"""What a migration says of itself, and of the one before it."""


def scripts_of(tree: str) -> Traversable:
    """Return the folder of a tree: ``control`` or ``tenant``."""
    return resources.files("payrec") / "migrations" / tree


def alembic_config(tree: str) -> AlembicConfig:
    """Return the Alembic configuration of a tree."""
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", str(scripts_of(tree)))
    config.set_main_option("path_separator", "os")
    return config


@cache
def loaded_scripts(tree: str) -> ScriptDirectory:
    """Return a tree's scripts, which are read once."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    return ScriptDirectory.from_config(alembic_config(tree))


@cache
def head(tree: str) -> str:
    """Return the newest revision of a tree: the one that comes before no other."""
    predecessors = _predecessors(tree)
    [newest] = predecessors.keys() - predecessors.values()
    return newest


@cache
def known_revisions(tree: str) -> frozenset[str]:
    """Return all revisions of a tree that this image knows."""
    return frozenset(_predecessors(tree))


def _predecessors(tree: str) -> dict[str, str | None]:
    """Return the revision before each."""
    found: dict[str, str | None] = {}
    for file in (scripts_of(tree) / "versions").iterdir():
        if file.name.endswith(".py"):
            said = dict(_REVISION.findall(file.read_text("utf-8")))
            if "revision" in said:
                found[said["revision"]] = said["down_revision"] or None
    return found


def admin_engine(url: str) -> Engine:
    """Return an engine for migrations: one connection, kept by nobody."""
    address = make_url(url).set(drivername="postgresql+psycopg").update_query_dict(missing_bounds(url))
    return create_engine(address, poolclass=pool.NullPool)


@contextmanager
def migrating(
    engine: Engine, *, role: str | None = None, schema: str = CONTROL_SCHEMA, lock_timeout: str = LOCK_TIMEOUT
) -> Iterator[Connection]:
    """Open a migration's transaction: one at a time for a schema, and never waiting long for a table."""
    with engine.begin() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        # lock_timeout holds for advisory locks too, and waiting for another migration is worth more patience.
        driver.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(ADVISORY_LOCK_TIMEOUT)))
        driver.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_ADVISORY_LOCK & 0x7FFFFFFF, schema))
        driver.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(lock_timeout)))
        if role is not None:
            driver.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        else:
            driver.execute(_ON_COORDINATOR)
        driver.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
        yield connection


def run_script(connection: Connection, script: str) -> None:
    """Run statements one by one, with ``%`` and ``:`` meaning nothing: a worker of Citus takes no more in a message."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    for statement in statements_of(script):
        driver.execute(statement.encode(), prepare=False)


def upgrade(connection: Connection, tree: str, revision: str = "head") -> None:
    """Upgrade the first schema of the connection's search path."""
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415 - see above

    config = alembic_config(tree)
    config.attributes["connection"] = connection
    scripts = loaded_scripts(tree)

    def steps(at: str, _context: MigrationContext) -> list[RevisionStep]:
        return scripts._upgrade_revs(revision, at)  # noqa: SLF001 - as Alembic's cookbook does

    # What Alembic's command does, but for reading all scripts anew at each call: with thousands of environments that
    # was two thirds of the processor time.
    with _ALEMBIC, EnvironmentContext(config, scripts, fn=steps, destination_rev=revision):
        scripts.run_env()


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the first schema of the connection's search path; None where no migration has run."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    found = driver.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return None
    row = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one schema: its revision before and after, and the class of the error that stopped it."""

    before: str | None
    after: str | None
    error: str | None = None


def upgrade_control(url: str, *, login: str) -> Step:
    """Bring the control schema, its roles and their rights to the head; one that is ahead stays as it is.

    Raises
    ------
    UnavailableError
        The administrator cannot connect, or somebody else holds a lock for too long.
    ProvisioningDeniedError
        The administrator lacks a right.
    MigrationFailedError
        The database refuses something else.
    """
    with _refusals():
        engine = admin_engine(url)
        with migrating(engine) as connection:
            before = revision_of(connection)
        if is_ahead("control", before):
            return Step(before=before, after=before)
        prepare(engine, login=login)
        with migrating(engine) as connection:
            upgrade(connection, "control")
        grant(engine)
    return Step(before=before, after=head("control"))


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the administrator's connection raises into an error of one line."""
    try:
        yield
    except (psycopg.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        text = (str(cause).strip().splitlines() or [""])[0]
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            raise ProvisioningDeniedError(text) from error
        if isinstance(cause, psycopg.errors.LockNotAvailable):
            raise UnavailableError(f"the control schema is locked by somebody else: {text}") from error
        if isinstance(cause, psycopg.OperationalError):
            raise UnavailableError(f"the database of ADMIN_DATABASE_URL cannot be used: {text}") from error
        raise MigrationFailedError(f"{type(cause).__name__}: {text}") from error


def upgrade_tenant(url: str, role: str, schema: str) -> Step:
    """Bring one environment's schema to the head, as the role that owns it; one that is ahead stays as it is.

    Where others hold a table, it lets them go on and tries again. Errors are returned by their class, so that the
    result crosses processes.
    """
    step, tries = _upgraded(url, role, schema), 1
    while step.error in _OTHERS_FIRST and step.before is not None and tries < TENANT_LOCK_TRIES:
        step, tries = _upgraded(url, role, schema), tries + 1
    return step


def _upgraded(url: str, role: str, schema: str) -> Step:
    before = None
    try:
        engine = admin_engine(url)
        with migrating(engine, role=role, schema=schema, lock_timeout=TENANT_LOCK_TIMEOUT) as connection:
            before = revision_of(connection)
            if before is None or is_ahead("tenant", before):
                return Step(before=before, after=before)
            upgrade(connection, "tenant")
            return Step(before=before, after=revision_of(connection))
    except Exception as error:  # noqa: BLE001 - one environment's failure must not stop the others
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        return Step(before=before, after=before, error=type(cause).__name__)


def is_ahead(tree: str, revision: str | None) -> bool:
    """Tell whether a newer image has made the revision: this one does not know it."""
    return revision is not None and revision not in known_revisions(tree)


def prepare(engine: Engine, *, login: str) -> None:
    """Make the group roles and schemas, and let the service's login role enter the doors. Idempotent."""
    with engine.begin() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        driver.execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        driver.execute(_ROLES_ON_WORKERS.format("off"))
        for role in (CONTROL_ROLE, AUTHENTICATION_ROLE, JOBS_ROLE, TENANT_GROUP_ROLE):
            create_role(driver, role)
            if role != TENANT_GROUP_ROLE:
                grant_door(driver, role, login)
        # On Citus these belong to no worker; that the administrator owns them takes his role there.
        driver.execute("SET LOCAL citus.enable_schema_based_sharding = off")
        for schema in (CONTROL_SCHEMA, JOBS_SCHEMA):
            driver.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))


def grant(engine: Engine) -> None:
    """Give the group roles what they need in the control and jobs schemas. Idempotent."""
    script = f"""
        GRANT USAGE ON SCHEMA {CONTROL_SCHEMA} TO {CONTROL_ROLE}, {AUTHENTICATION_ROLE}, {TENANT_GROUP_ROLE};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {CONTROL_SCHEMA} TO {CONTROL_ROLE};
        REVOKE INSERT, UPDATE, DELETE ON {CONTROL_SCHEMA}.alembic_version FROM {CONTROL_ROLE};
        REVOKE UPDATE, DELETE ON {CONTROL_SCHEMA}.audit_record FROM {CONTROL_ROLE};
        GRANT SELECT ON {CONTROL_SCHEMA}.tenant, {CONTROL_SCHEMA}.tenant_environment, {CONTROL_SCHEMA}.app_user,
            {CONTROL_SCHEMA}.api_key TO {AUTHENTICATION_ROLE};
        GRANT USAGE ON SCHEMA {JOBS_SCHEMA} TO {JOBS_ROLE};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {JOBS_SCHEMA} TO {JOBS_ROLE};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA {JOBS_SCHEMA} TO {JOBS_ROLE};
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {JOBS_SCHEMA} TO {JOBS_ROLE};
        REVOKE ALL ON FUNCTION {CONTROL_SCHEMA}.enqueue(uuid, text, interval) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION {CONTROL_SCHEMA}.enqueue(uuid, text, interval) TO {TENANT_GROUP_ROLE}, {CONTROL_ROLE};
        REVOKE ALL ON FUNCTION {CONTROL_SCHEMA}.note_unsealed(uuid, uuid),
            {CONTROL_SCHEMA}.schedule_webhook(uuid, uuid, timestamptz, boolean) FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION {CONTROL_SCHEMA}.note_unsealed(uuid, uuid),
            {CONTROL_SCHEMA}.schedule_webhook(uuid, uuid, timestamptz, boolean) TO {TENANT_GROUP_ROLE};
    """  # noqa: S608 - names of this module
    with migrating(engine) as connection:
        run_script(connection, script)


def create_role(connection: psycopg.Connection, role: str) -> None:
    """Create a role that nobody can log in as, unless it exists, and let the administrator act as it."""
    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    if found is None:
        connection.execute(_ROLES_ON_WORKERS.format("on"))
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        connection.execute(_ROLES_ON_WORKERS.format("off"))
        # PostgreSQL 16: who creates a role may administer it, but not become it, until granted so.
        connection.execute(
            sql.SQL("GRANT {} TO CURRENT_USER WITH SET TRUE, INHERIT FALSE").format(sql.Identifier(role))
        )


def grant_door(connection: psycopg.Connection, role: str, login: str) -> None:
    """Let the login role become ``role`` for a transaction, and inherit nothing of it."""
    connection.execute(
        sql.SQL("GRANT {} TO {} WITH SET TRUE, INHERIT FALSE").format(sql.Identifier(role), sql.Identifier(login))
    )

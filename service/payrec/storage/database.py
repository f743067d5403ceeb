"""The doors: the only ways to the database. Each is one transaction under one role.

The login role inherits nothing and owns nothing, so a query outside a door sees no table, and a query through the
wrong door is denied by the database itself. What a door sets is local to its transaction and goes in one message with
BEGIN; the connection that returns to the pool is nobody's again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from pydantic_core import from_json

from payrec.domain.scope import TenantScope
from payrec.errors import ProvisioningDeniedError, UnavailableError
from payrec.shares import TenantShares
from payrec.storage.addresses import POOL_TIMEOUT_SECONDS, RECONNECT_SECONDS_MAX, bounded
from payrec.storage.beginnings import beginning, beginning_anew, bounded_on_workers
from payrec.storage.integrity import is_spent, translate, unavailable
from payrec.storage.obstacles import obstacle
from payrec.storage.tables_behind import told_if_behind


class Connection(AsyncConnection[DictRow]):
    """A connection of the pools."""

    is_distributed = False
    """Whether this is the coordinator of a Citus cluster that gives each new schema a worker."""

    dropped_at_commit: list[str]
    """Tables of the transaction that nobody is to see afterwards (``temporary.py``)."""


CONTROL_ROLE: Final = "payrec_control"
"""May read and write the control schema."""

AUTHENTICATION_ROLE: Final = "payrec_authentication"
"""May read what authentication needs, and write nothing."""

JOBS_ROLE: Final = "payrec_jobs"
"""May use the job queue."""

TENANT_GROUP_ROLE: Final = "payrec_tenant"
"""Every tenant environment's role is a member: it may wake a worker, and nothing else."""

CONNECTION_LIFETIME_SECONDS: Final = 900.0
"""A backend keeps about 0.5 MB for each schema that it touched: recycled, it gives that back."""

IDLE_CONNECTION_SECONDS: Final = 600.0
"""When a connection is closed that was not needed for so long, where there are more than the least."""

ROUND_CONNECTIONS_MAX: Final = 2
"""Connections of one process for rounds through all tenant environments; each statement of theirs is short."""

ROUND_IDLE_SECONDS: Final = 15.0
"""When such a connection is closed that nobody has used since: its backend gives back what it kept of all of them."""

LOCK_SECONDS_MAX: Final = 30.0
"""How long who is in a hurry waits for what another transaction holds: new indexes of large tables, or a large run."""

_HURRIES: Final = ContextVar("hurries", default=False)
"""Whether who begins a transaction waits for what others hold for so long alone."""

_SHARES: Final = ContextVar("shares", default=False)
"""Whether who asks for a connection is to leave some to other tenants, and has none yet."""

_GOES_ROUND: Final = ContextVar("goes_round", default=False)
"""Whether who asks for a connection goes through all tenant environments, and has none yet."""

_IS_DISTRIBUTED: Final = """
    SELECT FROM pg_extension
    WHERE extname = 'citus' AND current_setting('citus.enable_schema_based_sharding', true) = 'on'
"""
_PLANNED_EACH_TIME: Final = b"SET LOCAL plan_cache_mode = force_custom_plan"


class Database:
    """The pools and the doors. ``admin_url`` is only needed to provision and to migrate."""

    def __init__(
        self,
        *,
        url: str,
        admin_url: str | None = None,
        pool_size_max: int = 10,
        prepared: bool = True,
    ) -> None:
        options: dict[str, Any] = {"autocommit": True, "row_factory": dict_row, "options": "-c timezone=UTC"}
        if not prepared:
            options["prepare_threshold"] = None
        self._shares = TenantShares(max(pool_size_max // 2, 1))
        self._url = url
        self._pool = _pool(url, options, minimum=2, maximum=pool_size_max)
        self._round_pool = _pool(url, options, maximum=ROUND_CONNECTIONS_MAX, max_idle=ROUND_IDLE_SECONDS)
        self._admin_pool = _pool(admin_url, options, maximum=2) if admin_url else None

    async def open(self) -> None:
        """Open the pools.

        Raises
        ------
        UnavailableError
            When the database cannot be reached; it says why.
        """
        try:
            await self._pool.open(wait=True, timeout=POOL_TIMEOUT_SECONDS)
        except PoolTimeout:
            await self._pool.close()
            raise UnavailableError(await obstacle(self._url) or "the database cannot be reached") from None
        for pool in self._others:
            await pool.open()

    async def close(self) -> None:
        """Close the pools."""
        for pool in (self._pool, *self._others):
            await pool.close()

    @property
    def _others(self) -> list[AsyncConnectionPool[Connection]]:
        """The pools that have no connection until somebody asks for one."""
        return [pool for pool in (self._round_pool, self._admin_pool) if pool is not None]

    @staticmethod
    def share() -> None:
        """From here on have this task, and those it begins, leave half of the connections to other tenants.

        For what asks for one connection at a time, as a request does. Jobs are admitted by other rules, each with all
        that it needs.
        """
        _SHARES.set(True)

    @staticmethod
    def hurry() -> None:
        """From here on have this task, and those it begins, give up on what others hold for too long (503).

        For whom others wait, or who has something to answer: a request, the clock's rounds through all tenants, and who
        seals their events. What a job waits for comes.
        """
        _HURRIES.set(True)

    @staticmethod
    def go_round() -> None:
        """From here on have this task, and those it begins, use connections that are closed soon afterwards.

        For what goes through all tenant environments: a backend keeps something of each, for as long as it lives, and
        the connections of jobs and requests are to know only those that they are for. What needs a second connection at
        the same time gets one of theirs.
        """
        _GOES_ROUND.set(True)

    @asynccontextmanager
    async def tenant(
        self,
        scope: TenantScope,
        *,
        readonly: bool = False,
        snapshot: bool | str = False,
        planned_once: bool = False,
    ) -> AsyncIterator[Connection]:
        """Open a transaction in which only this tenant environment's tables exist.

        ``snapshot`` gives all statements of the transaction one view of the data (REPEATABLE READ): that of another
        transaction, which is still open, where it is the name of one (``beside``).

        ``planned_once`` is for statements that look up a few rows whatever their values: these are planned without
        them, once for a connection. The planner takes an array for many ids unless it knows it, so it would plan them
        anew each time, which takes ten times as long as to do what they say.

        Raises
        ------
        RateLimitedError
            As many requests of the tenant are under way as may be (``share``).
        """
        # Each shared view has a name of its own, which nobody asks for again.
        make = beginning.__wrapped__ if isinstance(snapshot, str) else beginning
        begin = make(
            scope.role_name, scope.schema_name, readonly=readonly, snapshot=snapshot, planned_once=planned_once
        )
        share = await self._shares.taken(scope.tenant_id, seconds=POOL_TIMEOUT_SECONDS) if _SHARES.get() else None
        if share is not None:
            # Who has one waits for no other, which those who wait for this one may have.
            _SHARES.set(False)
        try:
            async with told_if_behind(lambda: self._transaction(self._pool, begin)) as connection:
                if planned_once and connection.is_distributed:
                    # Citus makes no plan of a statement of several parts without knowing the values.
                    await connection.execute(_PLANNED_EACH_TIME, prepare=False)
                yield connection
        finally:
            if share is not None:
                _SHARES.set(True)
                share.release()

    @asynccontextmanager
    async def beside(self, connection: Connection, scope: TenantScope) -> AsyncIterator[Connection]:
        """Open a second transaction that sees what that of ``connection`` sees, to read at the same time.

        On Citus it is the first one: what one sees of a worker has no name that could be told to another. There one
        thing is to be read after the other.
        """
        if connection.is_distributed:
            yield connection
            return
        async with self.tenant(scope, readonly=True, snapshot=await shared_snapshot(connection)) as other:
            yield other

    @asynccontextmanager
    async def control(self, *, readonly: bool = False) -> AsyncIterator[Connection]:
        """Open a transaction on the registry of tenants, users and keys."""
        async with self._transaction(self._pool, beginning(CONTROL_ROLE, "control", readonly=readonly)) as connection:
            yield connection

    @asynccontextmanager
    async def authentication(self) -> AsyncIterator[Connection]:
        """Open a read-only transaction on what authentication looks at."""
        begin = beginning(AUTHENTICATION_ROLE, "control", readonly=True)
        async with self._transaction(self._pool, begin) as connection:
            yield connection

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[Connection]:
        """Open a read-only transaction on the job queue's own tables."""
        async with self._transaction(self._pool, beginning(JOBS_ROLE, "jobs", readonly=True)) as connection:
            yield connection

    @asynccontextmanager
    async def provisioning(self, *, role: str | None = None, search_path: str = "control") -> AsyncIterator[Connection]:
        """Open a transaction as the administrator, or as ``role`` on its behalf.

        Raises
        ------
        ProvisioningDeniedError
            The administrator may not do what is done within.
        """
        if self._admin_pool is None:
            raise UnavailableError("ADMIN_DATABASE_URL is not set, so nothing can be provisioned here")
        if role is not None:
            begin = beginning(role, search_path, readonly=False)
        else:
            begin = sql.SQL("BEGIN; SET LOCAL search_path = {}").format(sql.Identifier(search_path)).as_bytes(None)
        try:
            async with self._transaction(self._admin_pool, begin) as connection:
                yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise ProvisioningDeniedError from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise UnavailableError("the database is read-only") from error

    def connections(self) -> dict[str, int]:
        """Return how many connections are ``open``, ``idle``, and ``max``; and how many requests are ``waiting``."""
        stats = self._pool.get_stats()
        return {
            "open": stats.get("pool_size", 0),
            "idle": stats.get("pool_available", 0),
            "max": stats.get("pool_max", 0),
            "waiting": stats.get("requests_waiting", 0),
        }

    async def ping(self) -> None:
        """Reach the database, or raise UnavailableError."""
        # As what is begun with: a connection that the server has ended meanwhile says nothing of the server.
        async with self._connection(self._pool, b"SELECT 1"):
            pass

    @asynccontextmanager
    async def _connection(
        self, pool: AsyncConnectionPool[Connection], begin: bytes | None = None
    ) -> AsyncIterator[Connection]:
        """Lend a connection; with ``begin``, in the transaction that this begins."""
        with self._going_round(pool) as lender:
            connection = await self._lent(lender, begin)
            try:
                yield connection
            except psycopg.Error as error:
                if is_spent(error):
                    await connection.close()
                if (typed := unavailable(error)) is None:
                    raise
                raise typed from error
            finally:
                await asyncio.shield(lender.putconn(connection))

    @contextmanager
    def _going_round(self, pool: AsyncConnectionPool[Connection]) -> Iterator[AsyncConnectionPool[Connection]]:
        """Return the pool to take a connection of: that of rounds, instead of the common one, for who goes round."""
        if pool is not self._pool or not _GOES_ROUND.get():
            yield pool
            return
        # Who has one waits for no other, which those who wait for this one may have.
        _GOES_ROUND.set(False)
        try:
            yield self._round_pool
        finally:
            _GOES_ROUND.set(True)

    async def _lent(self, pool: AsyncConnectionPool[Connection], begin: bytes | None) -> Connection:
        """Take a connection out of the pool, and begin on it.

        One that the server has ended meanwhile, as all of them when it restarts, is only known by its first message,
        which has done nothing then: the next one is taken. One that a silent network has swallowed is known later, and
        with it the time is over in which there may be a next one: all are as silent.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + POOL_TIMEOUT_SECONDS
        for left in range(pool.max_size, -1, -1):
            try:
                connection = await pool.getconn(max(until - loop.time(), 0.0))
            except (PoolTimeout, psycopg.OperationalError):
                raise UnavailableError("no database connection is available") from None
            if begin is None:
                return connection
            try:
                try:
                    await connection.execute(begin, prepare=False)
                except psycopg.errors.InsufficientPrivilege:
                    # The role may have been granted while this session made its list of those that it may become.
                    await connection.execute(beginning_anew(begin), prepare=False)
            except BaseException as error:
                is_dead = connection.closed
                if is_standby := isinstance(error, psycopg.errors.FeatureNotSupported):
                    # It takes no transaction that may write; a new connection finds who does, when names have moved.
                    await connection.close()
                await asyncio.shield(pool.putconn(connection))
                if is_standby:
                    raise UnavailableError("the database is read-only") from error
                if not isinstance(error, psycopg.OperationalError):
                    raise
                if not (is_dead and left):
                    raise UnavailableError("the database did not answer") from error
            else:
                return connection
        raise AssertionError("the last one is returned or raises")

    @asynccontextmanager
    async def _transaction(self, pool: AsyncConnectionPool[Connection], begin: bytes) -> AsyncIterator[Connection]:
        milliseconds = round(LOCK_SECONDS_MAX * 1000) if _HURRIES.get() else 0
        if milliseconds:
            begin += b"; SET LOCAL lock_timeout = %d" % milliseconds
        async with self._connection(pool, begin) as connection:
            connection.dropped_at_commit = []
            try:
                if milliseconds and connection.is_distributed:
                    await connection.execute(bounded_on_workers(milliseconds), prepare=False)
                yield connection
            except BaseException as error:
                with contextlib.suppress(psycopg.Error):
                    await connection.execute("ROLLBACK", prepare=False)
                if isinstance(error, psycopg.IntegrityError) and (typed := translate(error)) is not None:
                    raise typed from error
                raise
            try:
                if connection.dropped_at_commit:
                    names = sql.SQL(", ").join(map(sql.Identifier, connection.dropped_at_commit))
                    await connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(names), prepare=False)
                cursor = await connection.execute("COMMIT", prepare=False)
            except psycopg.IntegrityError as error:
                raise translate(error) or error from error
            if cursor.statusmessage != "COMMIT":
                # PostgreSQL answers COMMIT of a failed transaction with ROLLBACK and no error.
                raise UnavailableError("the transaction could not be committed")


async def shared_snapshot(connection: Connection) -> str:
    """Return the name of what the transaction sees, for another one that is to see the same."""
    cursor = await connection.execute(b"SELECT pg_export_snapshot() AS name", prepare=False)
    [row] = await cursor.fetchall()
    return str(row["name"])


def _pool(
    url: str, options: dict[str, Any], *, minimum: int = 0, maximum: int, max_idle: float = IDLE_CONNECTION_SECONDS
) -> AsyncConnectionPool[Connection]:
    return AsyncConnectionPool(
        bounded(url),
        connection_class=Connection,
        kwargs=options,
        min_size=minimum,
        max_size=maximum,
        max_lifetime=CONNECTION_LIFETIME_SECONDS,
        max_idle=max_idle,
        reconnect_timeout=RECONNECT_SECONDS_MAX,
        configure=_configure,
        open=False,
    )


async def _configure(connection: Connection) -> None:
    """Read JSON columns with pydantic's parser, which takes a third of the standard library's time."""
    set_json_loads(from_json, connection)
    connection.is_distributed = await (await connection.execute(_IS_DISTRIBUTED, prepare=False)).fetchone() is not None

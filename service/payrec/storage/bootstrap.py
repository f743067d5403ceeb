"""What an installation finds on its server before the first migration: two roles and a database, with their grants.

Everything else is made by migrations and by whoever makes tenants. Blocking, because it runs once and alone.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from payrec.errors import ConfigurationError, UnavailableError
from payrec.storage.addresses import CONNECT_SECONDS, bounded
from payrec.storage.obstacles import first_failure

ADMIN_OPTIONS: Final = "LOGIN NOSUPERUSER NOCREATEDB CREATEROLE"
"""Of the role that migrates and provisions."""

LOGIN_OPTIONS: Final = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT"
"""Of the role that the service logs in as."""

GRANTS: Final = (
    "REVOKE ALL ON DATABASE {database} FROM PUBLIC",
    "GRANT CONNECT, CREATE ON DATABASE {database} TO {admin}",
    "GRANT CONNECT ON DATABASE {database} TO {login}",
    "GRANT TEMPORARY ON DATABASE {database} TO PUBLIC",
    "ALTER DATABASE {database} SET timezone TO 'UTC'",
)
"""Of the database. Temporary tables are every role's, because imports use them as the tenant's role."""

_LOCK_TIMEOUT: Final = "60s"
"""How long another bootstrap of the same server is waited for."""

_LOCK: Final = "SELECT pg_advisory_lock(hashtext('payrec bootstrap'))"


def bootstrap(*, url: str, admin_url: str, login_url: str) -> tuple[str, ...]:
    """Make what is missing of the roles and the database that the two last addresses name; return what was made.

    Roles that are there get the password of their address and keep the rest, so this may be called again. ``url`` is
    of whoever may make roles and databases: a superuser, or what a managed server came with.

    Raises
    ------
    ConfigurationError
        The addresses do not name two roles of their own and one database, or the role of ``url`` may not do this.
    UnavailableError
        The server cannot be reached, or does not let us in.
    """
    admin, login = conninfo_to_dict(admin_url), conninfo_to_dict(login_url)
    database = login.get("dbname")
    if not database or admin.get("dbname") != database:
        raise ConfigurationError("ADMIN_DATABASE_URL and DATABASE_URL must name the same database")
    if not admin.get("user") or not login.get("user") or admin["user"] == login["user"]:
        raise ConfigurationError("ADMIN_DATABASE_URL and DATABASE_URL must name two roles")
    try:
        with psycopg.connect(bounded(url), autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
            if connection.info.user in {admin["user"], login["user"]}:
                raise ConfigurationError("BOOTSTRAP_DATABASE_URL must name another role than those that are made")
            connection.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT)))
            # Held until the connection ends.
            connection.execute(_LOCK)
            made = [
                str(given["user"])
                for given, options in ((admin, ADMIN_OPTIONS), (login, LOGIN_OPTIONS))
                if _ensure_role(connection, str(given["user"]), options, given.get("password"))
            ]
            if _ensure_database(connection, str(database)):
                made.append(str(database))
            names = {
                "database": sql.Identifier(str(database)),
                "admin": sql.Identifier(str(admin["user"])),
                "login": sql.Identifier(str(login["user"])),
            }
            for grant in GRANTS:
                connection.execute(sql.SQL(grant).format(**names))
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"the role of BOOTSTRAP_DATABASE_URL may not make roles and databases: {error.diag.message_primary}"
        ) from None
    except psycopg.Error as error:
        reason = error.diag.message_primary or first_failure(str(error))
        raise UnavailableError(f"the server of BOOTSTRAP_DATABASE_URL cannot be used: {reason}") from None
    return tuple(made)


def _ensure_role(connection: psycopg.Connection[tuple[object, ...]], role: str, options: str, password: object) -> bool:
    """Make the role, or give the one that is there its password; tell whether it was made."""
    is_there = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None
    command = sql.SQL("ALTER ROLE {}" if is_there else "CREATE ROLE {} " + options).format(sql.Identifier(role))
    if password:
        # Hashed here, so that no log of the server has it.
        verifier = connection.pgconn.encrypt_password(str(password).encode(), role.encode(), b"scram-sha-256")
        command += sql.SQL(" PASSWORD {}").format(sql.Literal(verifier.decode("ascii")))
    if password or not is_there:
        connection.execute(command)
    return not is_there


def _ensure_database(connection: psycopg.Connection[tuple[object, ...]], name: str) -> bool:
    """Make the database; tell whether it was made."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is not None:
        return False
    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return True

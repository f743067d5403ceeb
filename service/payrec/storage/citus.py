"""What a tenant environment needs on a Citus cluster beside what it needs anywhere: a worker that has its schema.

Citus places schemas and moves them; the client sees one database. It reaches a worker as the current role, so an
environment's role must be there and be able to log in.
"""

from __future__ import annotations

from typing import Final

from psycopg import sql

from payrec.errors import ProvisioningDeniedError
from payrec.storage.database import Connection
from payrec.storage.rows import fetch_one

GRANTS_HERE: Final = "SET LOCAL citus.enable_create_role_propagation = off; "
"""For what is granted afterwards. Citus grants on its workers as well if it knows who gets it, and then makes anew
there what he depends on, which an administrator who is no superuser may not."""

# The worker's part of CREATE SCHEMA is for its owner alone, and is done as the administrator.
_GRANT: Final = "GRANT {} TO CURRENT_USER WITH SET TRUE, INHERIT TRUE"
_REFUSED: Final = "SELECT result FROM run_command_on_workers(%s) WHERE NOT success LIMIT 1"


async def admit_administrator(connection: Connection, role: str) -> None:
    """Let the administrator become a role, which is committed, on the workers as well: there he makes its schema.

    Raises
    ------
    ProvisioningDeniedError
    """
    grant = sql.SQL(_GRANT).format(sql.Identifier(role)).as_string()
    if await fetch_one(connection, _REFUSED, (grant,)) is not None:
        raise ProvisioningDeniedError("the administrator's role is not on every worker, or may not make roles there")

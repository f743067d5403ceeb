"""What the console answers a GET with, by its router table: a test that has to look at all of it sees what is new."""

from __future__ import annotations

from typing import Final

from fastapi.routing import APIRoute

from payrec.main import CONSOLE_ROUTERS

ENTERED: Final = "/console/{environment}"
"""Where the pages of an environment are."""

DOWNLOADS: Final = frozenset(
    {
        f"{ENTERED}/imports/{{import_id}}/file",
        f"{ENTERED}/imports/{{import_id}}/findings.csv",
        f"{ENTERED}/month-end/{{account_id}}/statement.csv",
        f"{ENTERED}/month-end/{{account_id}}/lines.csv",
    }
)
"""What is kept and not shown: ``test_downloads`` sees that no browser takes it for a page."""


def console_paths() -> list[str]:
    """Return the path of every route that takes a GET."""
    every = [route for router in CONSOLE_ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return [route.path for route in every if "GET" in route.methods]

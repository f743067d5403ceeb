"""``/api/health``."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from payrec import __version__
from payrec.errors import UnavailableError
from payrec.handlers.context import Context, problems
from payrec.handlers.routing import GatedRouter
from payrec.models.health import Health

router = GatedRouter(tags=["health"])


@router.get("/api/health", summary="Health check", response_model=Health, responses=problems(UnavailableError))
async def health(context: Context) -> JSONResponse:
    """Tell whether requests can be served, without internals."""
    await context.factory.context.database.ping()
    return JSONResponse({"status": "ok", "version": __version__})

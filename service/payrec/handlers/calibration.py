"""``/matching/calibration``."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.handlers.context import Context, respond
from payrec.handlers.routing import GatedRouter
from payrec.models.calibration import CalibrationPublic

router = GatedRouter(tags=["matching"])


@router.get("/matching/calibration", summary="Get what decisions have taught", response_model=CalibrationPublic)
async def get(context: Context) -> Response:
    """Return the certified threshold, on how many reviewed decisions, with which bound, and the corrected weights."""
    return respond(await context.factory.create_calibration_service().get(context.caller))


@router.delete("/matching/calibration", summary="Forget what decisions have taught", status_code=204)
async def reset(context: Context) -> Response:
    """Forget what was learned and the decisions so far; what is decided from now on teaches anew."""
    await context.factory.create_calibration_service().reset(context.caller)
    return Response(status_code=204)

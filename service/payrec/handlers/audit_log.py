"""``/audit-log``."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.responses import Response

from payrec.errors import InvalidCursorError, ValidationFailedError
from payrec.handlers.context import Context, problems, query_of, query_parameters, respond_page
from payrec.handlers.routing import GatedRouter
from payrec.models.audit_log import AuditLogQuery, AuditRecordPublic
from payrec.models.common import Page

AuditLogList = Annotated[AuditLogQuery, Depends(query_of(AuditLogQuery))]

router = GatedRouter(tags=["audit log"])


@router.get(
    "/audit-log",
    summary="List the audit log",
    response_model=Page[AuditRecordPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(AuditLogQuery),
)
async def list_(context: Context, query: AuditLogList) -> Response:
    """List who did what, to which resource, with before and after, newest first.

    It has what was done in the environment, and what was done to the tenant, its users, and the environment's keys.
    """
    page = await context.factory.create_audit_log_service().page(context.caller, query)
    return respond_page(context, page, query)

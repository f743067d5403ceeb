"""``/tenants`` and their settings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Depends
from fastapi.responses import Response

from payrec.errors import (
    ConflictError,
    InvalidCursorError,
    NotFoundError,
    SlugTakenError,
    UnavailableError,
    UsernameTakenError,
    ValidationFailedError,
    VersionMismatchError,
)
from payrec.handlers.context import (
    Context,
    IfMatch,
    ResourceId,
    problems,
    query_of,
    query_parameters,
    respond,
    respond_page,
)
from payrec.handlers.routing import GatedRouter
from payrec.models.common import Page
from payrec.models.tenants import Settings, TenantCreate, TenantPatch, TenantPublic, TenantQuery

TenantList = Annotated[TenantQuery, Depends(query_of(TenantQuery))]

router = GatedRouter(tags=["tenants"])


@router.post(
    "/tenants",
    summary="Create a tenant",
    status_code=201,
    response_model=TenantPublic,
    responses={
        202: {"description": "The operator makes it; its status becomes active.", "model": TenantPublic},
        **problems(SlugTakenError, UsernameTakenError, ValidationFailedError, UnavailableError),
    },
)
async def create(context: Context, given: TenantCreate) -> Response:
    """Create a tenant with its environments. Public where the server runs in development."""
    created = await context.factory.create_tenant_service().create(context.caller, given)
    return respond(created, 202 if created.status == "provisioning" else 201, created.headers)


@router.get(
    "/tenants",
    summary="List tenants",
    response_model=Page[TenantPublic],
    responses=problems(InvalidCursorError, ValidationFailedError),
    openapi_extra=query_parameters(TenantQuery),
)
async def list_(context: Context, query: TenantList) -> Response:
    """List the caller's tenant; all of them for who manages tenants."""
    page = await context.factory.create_tenant_service().page(context.caller, query)
    return respond_page(context, page, query)


@router.get(
    "/tenants/{tenant_id}", summary="Get a tenant", response_model=TenantPublic, responses=problems(NotFoundError)
)
async def get(context: Context, tenant_id: ResourceId) -> Response:
    """Return one tenant."""
    found = await context.factory.create_tenant_service().get(context.caller, tenant_id)
    return respond(found, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/tenants/{tenant_id}",
    summary="Rename, suspend or resume a tenant",
    response_model=TenantPublic,
    responses=problems(NotFoundError, ConflictError, VersionMismatchError, ValidationFailedError),
)
async def patch(context: Context, tenant_id: ResourceId, given: TenantPatch, if_match: IfMatch) -> Response:
    """Change a tenant; needs the permission tenants:manage."""
    changed = await context.factory.create_tenant_service().patch(context.caller, tenant_id, given, if_match)
    return respond(changed, headers={"ETag": changed.headers["ETag"]})


@router.get(
    "/tenants/{tenant_id}/settings",
    summary="Get a tenant's settings",
    response_model=Settings,
    responses=problems(NotFoundError),
)
async def get_settings(context: Context, tenant_id: ResourceId) -> Response:
    """Return the settings in force, defaults included."""
    found = await context.factory.create_tenant_service().get(context.caller, tenant_id)
    return respond(found.settings, headers={"ETag": found.headers["ETag"]})


@router.patch(
    "/tenants/{tenant_id}/settings",
    summary="Update a tenant's settings",
    response_model=Settings,
    responses=problems(NotFoundError, ConflictError, VersionMismatchError, ValidationFailedError),
)
async def patch_settings(
    context: Context,
    tenant_id: ResourceId,
    patch: Annotated[
        dict[str, Any],
        Body(title="SettingsPatch", description="A merge patch (RFC 7396): null goes back to the default."),
    ],
    if_match: IfMatch,
) -> Response:
    """Merge a patch into the settings."""
    service = context.factory.create_tenant_service()
    settings, version = await service.patch_settings(context.caller, tenant_id, patch, if_match)
    return respond(settings, headers={"ETag": f'"{version}"'})

"""``/auth/token``."""

from __future__ import annotations

from fastapi.responses import Response

from payrec.errors import (
    IdentityProviderUnavailableError,
    InvalidCredentialsError,
    RateLimitedError,
    ValidationFailedError,
)
from payrec.handlers.bodies import form_or_json
from payrec.handlers.context import Context, problems, respond
from payrec.handlers.routing import GatedRouter
from payrec.models.tokens import TokenPublic, TokenRequest
from payrec.services.validation import validated

router = GatedRouter(tags=["auth"])


@router.post(
    "/auth/token",
    summary="Exchange a username and password for an access token",
    response_model=TokenPublic,
    responses=problems(
        InvalidCredentialsError, ValidationFailedError, RateLimitedError, IdentityProviderUnavailableError
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                media: {"schema": TokenRequest.model_json_schema(by_alias=True)}
                for media in ("application/json", "application/x-www-form-urlencoded")
            },
        }
    },
)
async def token(context: Context) -> Response:
    """Exchange a username and password at the identity provider. No refresh token is returned or supported."""
    given = validated(TokenRequest, await form_or_json(context.request))
    client = context.request.client
    service = context.factory.create_token_service()
    granted = await service.exchange(given, address=client.host if client is not None else "")
    return respond(granted)

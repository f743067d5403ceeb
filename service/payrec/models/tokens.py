"""Tokens on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, StringConstraints

from payrec.models.common import Request


class TokenRequest(Request):
    """A person's name and password at the identity provider."""

    username: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    password: Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class TokenPublic(BaseModel):
    """The access token, in this interface's spelling and in that of RFC 6749. Never a refresh token."""

    accessToken: str  # noqa: N815 - the wire's spelling; the model has both
    tokenType: Literal["Bearer"] = "Bearer"  # noqa: N815 - same
    expiresIn: int  # noqa: N815 - same
    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a type of tokens, no token
    expires_in: int

"""Tokens: a username and a password, exchanged at the identity provider."""

from __future__ import annotations

from payrec.models.tokens import TokenPublic, TokenRequest
from payrec.services.identity_provider import IdentityProviderClient


class TokenService:
    """The service of ``POST /auth/token``."""

    def __init__(self, *, identity_provider: IdentityProviderClient) -> None:
        self._identity_provider = identity_provider

    async def exchange(self, given: TokenRequest) -> TokenPublic:
        """Return an access token; never a refresh token.

        Raises
        ------
        InvalidCredentialsError
            The name or the password is wrong; which one is not told.
        IdentityProviderUnavailableError
        """
        grant = await self._identity_provider.password_grant(given.username, given.password)
        return TokenPublic(
            accessToken=grant.access_token,
            expiresIn=grant.expires_in,
            access_token=grant.access_token,
            expires_in=grant.expires_in,
        )

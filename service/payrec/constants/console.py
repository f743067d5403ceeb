"""Limits of the console: its session, its cookies and what it shows at once."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

COOKIE_BYTES_MAX: Final = 3_800
"""Bytes of one cookie's value; with name and attributes it stays below the 4,096 that every browser keeps."""

COOKIES_MAX: Final = 3
"""Cookies that a session may take; with them, a request's headers stay below HEADER_BYTES_MAX."""

ID_TOKEN_LENGTH_MAX: Final = 3_000
"""Characters of an ID token that is sent along when somebody signs out at the provider: servers and proxies commonly
take addresses of 4,096 bytes."""

SESSION_LIFETIME_MAX: Final = timedelta(hours=12)
"""How long somebody stays signed in at most, however often the session is prolonged."""

SESSION_RENEWED_BEFORE: Final = timedelta(seconds=60)
"""How long before the end of its token a session is prolonged."""

SESSION_RENEWALS_KEPT: Final = 1_000
"""Renewals that a process remembers, so that requests that come at once with one refresh token use it once."""

SIGN_IN_LIFETIME: Final = timedelta(minutes=10)
"""How long a sign-in at the identity provider may take."""

SIGN_INS_BYTES_MAX: Final = 2_400
"""Bytes that sign-ins under way may take together in a browser, which is one with the longest address, or several with
usual ones: the oldest go first, so that a request's headers stay below HEADER_BYTES_MAX."""

SIGN_IN_NAME_LENGTH: Final = 16
"""Characters of a sign-in's state that its cookie is named by."""

NEXT_LENGTH_MAX: Final = 2_000
"""Characters of the address that is gone to after sign-in."""

FOREIGN_LENGTH: Final = 160
"""Characters of a foreign text that are shown before somebody asks for the rest."""

FOREIGN_LENGTH_MAX: Final = 20_000
"""Characters of a foreign text that are shown at all; every field that can hold more has an address of its own."""

GZIP_BYTES_MIN: Final = 1_024
"""Bytes from which a page or a file is sent compressed."""

STATIC_MAX_AGE: Final = timedelta(days=365)
"""How long a browser may keep a file whose address tells its content."""

ALONE_HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of whatever a browser shows of us, beside a policy of its own: no other site sees or gets anything of it."""

VIEWER_MAX_AGE: Final = timedelta(hours=1)
"""How long a browser may keep the files of the documentation's viewer, whose addresses stay when they change."""

"""Limits of pulled data sources, each with its unit."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

# What is configured ---------------------------------------------------------------------------------------------

SOURCE_URLS_MAX: Final = 100
"""Addresses of one HTTP source."""

SOURCE_PATTERN_LENGTH_MAX: Final = 200
"""Characters of a pattern of names."""

SOURCE_PATH_LENGTH_MAX: Final = 500
"""Characters of a prefix or a directory."""

SOURCE_SCHEDULE_LENGTH_MAX: Final = 100
"""Characters of a cron expression."""

SOURCE_SECRET_VALUE_LENGTH_MAX: Final = 16 * 1024
"""Characters of one member of ``secret``; a private key or a service account's key is the longest."""

SOURCE_HOST_KEY_LENGTH_MAX: Final = 4 * 1024
"""Characters of the public key of an SFTP server."""

# What is remote -------------------------------------------------------------------------------------------------

OBJECT_NAME_LENGTH_MAX: Final = 1_024
"""Characters of the name of a remote object (S3 allows as many bytes)."""

OBJECT_VERSION_LENGTH_MAX: Final = 512
"""Characters of what tells two contents of a name apart; a longer one is hashed."""

OBJECTS_LISTED_MAX: Final = 20_000
"""Objects that a source may show at one look; beyond, the look fails: move or delete what was read."""

DIRECTORY_DEPTH_MAX: Final = 8
"""Directories within directories that are looked into on an SFTP server."""

OBJECT_STABLE_AFTER: Final = timedelta(seconds=60)
"""How long an object that may be written in place must have been unchanged before it is read."""

OBJECT_OLD_AFTER: Final = timedelta(days=1)
"""How long ago a server must say that such an object was changed to be believed at the first look.

Its clock may be late, or tell the time of its place: what is being written there would be old already."""

# What a sync does -----------------------------------------------------------------------------------------------

SYNC_OBJECTS_MAX: Final = 1_000
"""Objects that one sync reads; the next one goes on."""

SYNC_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
"""Bytes that one sync reads; the next one goes on."""

SYNC_SECONDS_MAX: Final = 300.0
"""Seconds after which a sync begins to read nothing more, or to clear away; the next one goes on."""

SYNC_BYTES_HELD: Final = 32 * 1024 * 1024
"""Memory that a sync takes: 20,000 objects with names of 60 characters are 18 MiB, and files are streams."""

SYNC_ERRORS_SHOWN_MAX: Final = 20
"""Objects that failed that the result of a sync names."""

OBJECT_ATTEMPTS_MAX: Final = 5
"""How often an object is tried that cannot be read, until its source is changed."""

OBJECT_TRIED_AGAIN_AFTER: Final = timedelta(hours=1)
"""How long after the last of these tries there is another one, where it is the server that failed."""

PASSING_ERRORS: Final = frozenset(
    {
        "address_refused",
        "answer_refused",
        "connection_broken",
        "given_up",
        "name_not_found",
        "not_authenticated",
        "not_found",
        "permission_denied",
        "redirect_refused",
        "tls_failed",
        "too_slow",
    }
)
"""Codes of what a server may do otherwise another time; what is wrong with the content of an object stays wrong."""

OBJECT_READS_MAX: Final = 3
"""How often an object is read again at once that was replaced while it was read, or whose connection broke."""

DUE_SOURCES_AT_ONCE: Final = 500
"""Sources of one environment whose syncs are started at one tick of the schedule."""

# The network ----------------------------------------------------------------------------------------------------

SOURCE_CONNECT_SECONDS: Final = 15.0
"""Seconds to look up a name, connect and log in."""

SOURCE_SILENCE_SECONDS: Final = 60.0
"""Seconds without a byte after which a connection counts as broken."""

SOURCE_LISTING_SECONDS: Final = 300.0
"""Seconds that listing a source may take."""

SOURCE_OBJECT_SECONDS: Final = 900.0
"""Seconds that reading one object may take, with all its tries."""

SOURCE_CLEARING_SECONDS: Final = 120.0
"""Seconds that deleting or moving one object may take."""

SOURCE_CHUNK_BYTES: Final = 256 * 1024
"""Bytes of an object that are in memory at once."""

PROXY_HEAD_BYTES_MAX: Final = 64 * 1024
"""Bytes of the head of a request to an object store."""

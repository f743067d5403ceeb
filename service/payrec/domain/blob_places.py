"""Where stored files are kept outside the database, as BLOB_URL says it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from payrec.constants.blobs import BLOB_URL_LENGTH_MAX

DATABASE: Final = "postgres"
"""What BLOB_URL is when files are kept in the database."""

STORES: Final = frozenset({"s3", "gs", "az"})
"""Schemes of object stores that are asked over a network."""

_CONTAINER: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,221}")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """A directory (``file``), or a part of a bucket (``s3``, ``gs``) or container (``az``)."""

    scheme: str
    container: str
    """Empty for a directory."""
    path: str
    """The directory, or what all names begin with, without slashes at its ends; then it may be empty."""

    @classmethod
    def of(cls, url: str) -> Self | None:
        """Return the place that a URL names; None for the database.

        Raises
        ------
        ValueError
            It names none. What it says is not repeated: a URL is where people put passwords.
        """
        if url == DATABASE:
            return None
        refused = ValueError("must be a short URL without user, query and fragment; credentials are variables")
        try:
            parts = urlsplit(url)
        except ValueError:
            raise refused from None
        if len(url) > BLOB_URL_LENGTH_MAX or parts.query or parts.fragment or "@" in parts.netloc:
            raise refused
        if parts.scheme == "file":
            if parts.netloc or not parts.path.startswith("/") or ".." in parts.path.split("/") or "%" in parts.path:
                raise ValueError("must name a directory by its absolute path, as in file:///var/lib/payrec/blobs")
            return cls("file", "", parts.path.rstrip("/") or "/")
        if parts.scheme not in STORES or not _CONTAINER.fullmatch(parts.netloc):
            raise ValueError(
                "must be postgres, file:///directory, s3://bucket/prefix, gs://bucket/prefix, or az://container/prefix"
            )
        path = parts.path.strip("/")
        if path and not all(_SEGMENT.fullmatch(segment) for segment in path.split("/")):
            raise ValueError("has a prefix with other characters than letters, digits, and . _ = -")
        return cls(parts.scheme, parts.netloc, path)

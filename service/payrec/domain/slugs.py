"""Slugs: the short names of tenants, of which schema names are made."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LENGTH_MIN: Final = 2
LENGTH_MAX: Final = 30
RESERVED: Final = frozenset({"public", "postgres", "template", "information-schema", "shared", "admin"})
"""Names that PostgreSQL or we mean something else by; so are ``pg`` and everything that begins with ``pg-``."""

_SLUG: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)


def slug_problem(slug: str) -> str | None:
    """Return what is wrong with a slug, or None."""
    if not LENGTH_MIN <= len(slug) <= LENGTH_MAX:
        return f"must have {LENGTH_MIN} to {LENGTH_MAX} characters"
    if not _SLUG.fullmatch(slug):
        return "must be lower-case letters and digits, with single hyphens between, and begin with a letter"
    # A schema is named after it and its environment, and those that begin with pg_ are PostgreSQL's.
    if slug in RESERVED or f"{slug}-".startswith("pg-"):
        return "is reserved"
    return None


def slug_of(name: str) -> str | None:
    """Return the slug that a name suggests, or None when it suggests none."""
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:LENGTH_MAX].rstrip("-")
    return slug if slug_problem(slug) is None else None

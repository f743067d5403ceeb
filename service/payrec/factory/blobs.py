"""The part of the composition root that decides where files are kept."""

from __future__ import annotations

import secrets

from payrec.domain.blob_places import BlobPlace
from payrec.services.blobs import Blobs, ChunkBlobs, ObjectBlobs, ObjectStore
from payrec.storage.database import Database


def object_store(url: str) -> ObjectStore | None:
    """Return the object store that BLOB_URL names; None where it names the database.

    Raises
    ------
    ConfigurationError
        It cannot be used with the variables that are set.
    """
    place = BlobPlace.of(url)
    if place is None:
        return None
    from payrec.connectors.blobs import objects_at  # noqa: PLC0415 - its library is not needed for the database

    return objects_at(place)


def blobs_of(database: Database, store: ObjectStore | None) -> Blobs:
    """Return what keeps files, in the object store if there is one."""
    chunks = ChunkBlobs(database=database)
    if store is None:
        return chunks
    return ObjectBlobs(store=store, chunks=chunks, token_bytes=secrets.token_bytes)

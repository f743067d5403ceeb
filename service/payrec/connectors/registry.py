"""Which connector a kind of source has. The libraries are loaded when a source of that kind is opened."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from payrec.connectors.base import Connector, Place

_CONNECTORS: Final = {
    "s3": ("objectstore", "S3Connector"),
    "gcs": ("objectstore", "GcsConnector"),
    "azure": ("objectstore", "AzureConnector"),
    "http": ("http", "HttpConnector"),
    "sftp": ("sftp", "SftpConnector"),
}

KINDS: Final = frozenset(_CONNECTORS)
"""Kinds of sources that are pulled."""


def connector_of(kind: str, place: Place) -> Connector:
    """Return the connector of a source, not open yet."""
    module, name = _CONNECTORS[kind]
    made: Any = getattr(import_module(f"payrec.connectors.{module}"), name)
    connector: Connector = made(place)
    return connector

"""Credentials of data sources: given once and stored encrypted, or mounted by whoever runs the installation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from payrec.constants.sources import SOURCE_SECRET_VALUE_LENGTH_MAX
from payrec.services.secret_box import SecretBox

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
"""Names of a Secret in Kubernetes (RFC 1123)."""

_MEMBER: Final = re.compile(r"[A-Za-z]{1,40}", re.ASCII)
_HOSTS: Final = "hosts"
"""The member of a mounted secret that is none: names of the servers that may have it, apart by spaces or lines."""


class SecretRefError(LookupError):
    """A mounted secret is not to be had; ``code`` and ``detail`` say why."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class SourceSecrets:
    """Seals, opens and finds secrets."""

    def __init__(self, *, box: SecretBox, directory: Path | None) -> None:
        self._box = box
        self._directory = directory

    def seal(self, source_id: UUID, secret: dict[str, str]) -> bytes:
        """Encrypt a secret for its source alone."""
        return self._box.seal(json.dumps(secret, sort_keys=True).encode(), owner=source_id.bytes)

    def of(self, row: dict[str, Any], *, slug: str) -> dict[str, str]:
        """Return the secret of a data source; empty where it has none.

        Raises
        ------
        ConfigurationError
            ENCRYPTION_KEY is not the one that it was stored under.
        SecretRefError
            What is mounted is gone, or was never there, or is for other servers.
        """
        if row["secret_ref"] is not None:
            return self.mounted(slug, row["secret_ref"], servers(row["kind"], row["config"]))
        if row["secret"] is None:
            return {}
        opened: dict[str, str] = json.loads(self._box.open(bytes(row["secret"]), owner=row["id"].bytes))
        return opened

    def mounted(self, slug: str, name: str, servers: frozenset[str]) -> dict[str, str]:
        """Return a mounted secret that is shown to these servers: a directory of the tenant's, a file for each member.

        Whoever may change a data source could have it told to a server of his own, where its ``hosts`` name none.

        Raises
        ------
        SecretRefError
            There is none of this name, or it leads elsewhere, or it is for other servers.
        """
        try:
            found = self._mounted(slug, name)
        except LookupError:
            detail = "names no secret that is mounted for this tenant"
            raise SecretRefError("secret_unknown", detail) from None
        hosts = found.pop(_HOSTS, None)
        if hosts is not None and not servers <= set(hosts.lower().split()):
            raise SecretRefError("secret_elsewhere", "names a secret whose `hosts` do not name this server")
        return found

    def _mounted(self, slug: str, name: str) -> dict[str, str]:
        if self._directory is None or not _NAME.fullmatch(name):
            raise LookupError
        own = (self._directory / slug).resolve()
        place = own / name
        found: dict[str, str] = {}
        try:
            # What is mounted are links to a directory beside them that is exchanged when the secret changes.
            if place.resolve().parent != own or not place.is_dir():
                raise LookupError
            for path in place.iterdir():
                if not _MEMBER.fullmatch(path.name):
                    continue
                if place.resolve() not in path.resolve().parents:
                    raise LookupError
                with path.open(encoding="utf-8") as file:
                    text = file.read(SOURCE_SECRET_VALUE_LENGTH_MAX + 1)
                if len(text) > SOURCE_SECRET_VALUE_LENGTH_MAX:
                    raise LookupError
                found[path.name] = text if "\n" in text.strip() else text.strip()
        except (OSError, ValueError):
            raise LookupError from None
        if not found:
            raise LookupError
        return found


def servers(kind: str, config: dict[str, Any]) -> frozenset[str]:
    """Return the names of the servers that a source of this config shows its secret to.

    ``config`` is as it is stored. Where the provider's own serve all (S3 and Google), there is none to be named.
    """
    if kind == "sftp":
        return frozenset({str(config["host"]).lower()})
    urls = list(config["urls"]) if kind == "http" else [config["endpoint"]] if config.get("endpoint") else []
    if kind == "azure" and not urls:
        return frozenset({f"{config['accountName']}.blob.core.windows.net"})
    return frozenset(str(urlsplit(url).hostname) for url in urls)

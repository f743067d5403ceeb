"""What is fuzzed: a target for each reader of bank files that is registered, and for whatever else takes bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from payrec.formats.registry import READERS

CORPUS: Final = Path(__file__).parent / "corpus"
"""A folder for each target, a file for each case."""

CORPUS_BYTES_MAX: Final = 500_000
"""Bytes of all cases."""


@dataclass(frozen=True)
class Target:
    """Something that takes bytes."""

    name: str
    place: str
    """The check's module and name, and the family of files that it takes; loaded when it is needed, since the fuzzer
    has to see the code while it is loaded."""
    code: str
    """The packages of the code that it is about, separated by commas."""
    length_max: int
    """Bytes of a case."""

    @property
    def corpus(self) -> Path:
        """The folder of its cases."""
        return CORPUS / self.name

    def cases(self) -> Iterator[Path]:
        """Yield its cases."""
        yield from sorted(path for path in self.corpus.iterdir() if path.is_file())

    def check(self, data: bytes) -> None:
        """Fail where one of the properties does not hold."""
        module, name, *family = self.place.split(":")
        getattr(import_module(module), name)(*family, data)


FILES_OF: Final = {reader.name: f"file-{reader.name}" for reader in READERS}
"""The target of each reader."""

_SHARED: Final = "payrec.formats.registry,payrec.formats.accounting,payrec.formats.text,payrec.formats.detection"
_JSON: Final = "payrec.gate.strict_json,payrec.services.strict_json"
_TOKEN: Final = f"payrec.services.verification,payrec.services.claims,{_JSON}"
_HEADER: Final = (
    "payrec.domain,payrec.gate,payrec.handlers.downloads,payrec.services.validation,payrec.services.csv_text"
)

TARGETS: Final = {
    target.name: target
    for target in (
        *(
            Target(name, f"fuzz.files:check_family:{family}", f"payrec.formats.{family},{_SHARED}", 4_096)
            for family, name in FILES_OF.items()
        ),
        Target("file-any", "fuzz.files:check_any", "payrec.formats", 4_096),
        Target(
            "file-records", "fuzz.files:check_records", f"payrec.formats.records,payrec.formats.csv,{_SHARED}", 2_048
        ),
        Target("file-rates", "fuzz.files:check_rates", "payrec.formats.ecb_rates,payrec.formats.containers", 2_048),
        Target("money", "fuzz.values:check_money", "payrec.domain,payrec.formats.text", 64),
        Target("json", "fuzz.values:check_json", _JSON, 512),
        Target("token", "fuzz.values:check_token", _TOKEN, 1_024),
        Target("cursor", "fuzz.values:check_cursor", "payrec.services.paging", 256),
        Target("query", "fuzz.queries:check_query", "payrec.models,payrec.handlers.context", 512),
        Target("header", "fuzz.values:check_header", _HEADER, 256),
        Target("upload", "fuzz.bodies:check_upload", "payrec.handlers.bodies,payrec.models.imports", 1_024),
        Target(
            "request",
            "fuzz.application:check_request",
            "payrec.gate,payrec.handlers,payrec.services.authentication",
            1_024,
        ),
    )
}
"""By name."""

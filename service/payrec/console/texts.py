"""What the console says: one catalogue, and nothing of it anywhere else."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from babel import Locale

LANGUAGE: Final = "en"
"""The language of the catalogue; another one is another folder beside it."""

_FORMS: Final = frozenset({"zero", "one", "two", "few", "many", "other"})

Catalogue = Mapping[str, str | Mapping[str, str]]


class Texts:
    """Texts by their key: ``page.name``. One that counts has a form for each plural category of the language."""

    def __init__(self, catalogue: Catalogue, *, language: str = LANGUAGE) -> None:
        self._catalogue = catalogue
        self._plural_form = Locale.parse(language).plural_form

    def __call__(self, key: str, /, **parameters: Any) -> str:
        """Return a text; ``{name}`` in it becomes the parameter of that name, ``count`` chooses the form.

        Raises
        ------
        KeyError
            There is no such text, or a parameter of it is missing.
        """
        text = self._catalogue[key]
        if not isinstance(text, str):
            text = text[self._plural_form(parameters["count"])] if "count" in parameters else text["other"]
        return text.format_map(parameters)

    def first(self, *keys: str) -> str:
        """Return the first of some texts that there is: that of one case, or else that of all others.

        Raises
        ------
        KeyError
            There is none of them.
        """
        return self(next((key for key in keys if key in self._catalogue), keys[-1]))

    def __contains__(self, key: str) -> bool:
        return key in self._catalogue


def load_catalogue(language: str = LANGUAGE) -> dict[str, str | dict[str, str]]:
    """Read all texts of a language; each file has tables of one page, whose names are the keys' first part."""
    found: dict[str, str | dict[str, str]] = {}
    for file in sorted(files("payrec.console").joinpath("texts", language).iterdir(), key=lambda f: f.name):
        for page, texts in tomllib.loads(file.read_text(encoding="utf-8")).items():
            for name, text in _flat(texts):
                key = f"{page}.{name}"
                if key in found:
                    raise ValueError(f"the text {key} is there twice")
                found[key] = text
    return found


def _flat(texts: Mapping[str, Any]) -> list[tuple[str, str | dict[str, str]]]:
    """Return texts by name; a table of plural forms is one text, every other table has texts of its own."""
    found: list[tuple[str, str | dict[str, str]]] = []
    for name, value in texts.items():
        if isinstance(value, str) or _FORMS.issuperset(value):
            found.append((name, value))
        else:
            found += [(f"{name}.{inner}", text) for inner, text in _flat(value)]
    return found

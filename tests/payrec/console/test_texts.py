"""What the console says is in its catalogue, all of it and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import payrec.console
from payrec.console.texts import Texts, load_catalogue
from payrec.domain.matching.rules import FEATURES

FOLDER = Path(payrec.console.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
MODULES = sorted(FOLDER.glob("*.py"))
CATALOGUE = load_catalogue()

LITERAL = re.compile(r"""["']([a-z_-]+(?:[.][A-Za-z0-9_-]+)*[.]?)["'](\s*~)?""")
FILE = re.compile(r"[.](?:html|css|js|svg)$")
PAGES = {key.partition(".")[0] for key in CATALOGUE}
TOLD = ("aria-label", "alt", "placeholder", "title")
"""Attributes whose values are read to people."""


def literals(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what is written as a key, and whether it is a beginning that something is added to."""
    for found in LITERAL.finditer(text):
        page, dot, _ = found[1].partition(".")
        if page in PAGES and dot and not FILE.search(found[1]):
            yield found[1], found[2] is not None or found[1].endswith(".")


def test_the_console_has_templates_and_texts() -> None:
    assert len(TEMPLATES) >= 8
    assert len(CATALOGUE) > 50


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_text_that_a_template_asks_for_is_there(template: Path) -> None:
    for key, is_beginning in literals(template.read_text(encoding="utf-8")):
        there = [known for known in CATALOGUE if known.startswith(key)] if is_beginning else key in CATALOGUE
        assert there, key


def test_whatever_the_evidence_says_has_words() -> None:
    said = {f"{feature}.{level.name.lower()}" for feature, levels in FEATURES.items() for level in levels if level}
    known = {key.removeprefix("review.level.") for key in CATALOGUE if key.startswith("review.level.")}
    assert known == {*said, "other"}


def test_every_text_is_used() -> None:
    written = [path.read_text(encoding="utf-8") for path in (*TEMPLATES, *MODULES)]
    exact = {key for text in written for key, is_beginning in literals(text) if not is_beginning}
    begun = {key for text in written for key, is_beginning in literals(text) if is_beginning}
    begun |= {found for text in written for found in re.findall(r'f"([a-z_]+(?:[.][a-z_-]+)*[.])\{', text)}
    unused = [key for key in CATALOGUE if key not in exact and not any(key.startswith(part) for part in begun)]
    assert unused == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_words_of_its_own(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    text = re.sub(r"\{% block page_name %\}.*?\{% endblock %\}", "", text)
    plain = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", text, flags=re.DOTALL)
    attributes = "|".join(TOLD)
    for value in re.findall(rf'\b(?:{attributes})="([^"]*)"', plain):
        assert not re.search(r"[A-Za-z]{2}", value), f"{template.name}: {value}"
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>|&[a-z]+;", " ", plain))
    assert words == [], template.name


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_lets_anything_run_or_look_that_is_not_a_file(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe\b|\bMarkup\b|autoescape", text)
    assert not re.search(r"\s(style|on[a-z]+)=", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style\b|javascript:", text)


@pytest.mark.parametrize("script", sorted((FOLDER / "static").glob("*.js")), ids=lambda path: path.name)
def test_no_script_makes_marks_of_texts(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\.style\.", text
    )


def test_a_text_counts_and_takes_parameters() -> None:
    texts = Texts({"a.one": "{count} line of {name}", "a.many": {"one": "{count} line", "other": "{count} lines"}})
    assert texts("a.one", count=2, name="{x}<b>") == "2 line of {x}<b>"
    assert [texts("a.many", count=n) for n in (0, 1, 2)] == ["0 lines", "1 line", "2 lines"]


def test_of_some_texts_the_first_that_there_is_is_taken() -> None:
    texts = Texts({"a.known": "Known", "a.other": "Another"})
    assert texts.first("a.known", "a.other") == "Known"
    assert texts.first("a.unknown", "a.other") == "Another"
    with pytest.raises(KeyError):
        texts.first("a.unknown", "a.neither")


def test_a_text_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        Texts({})("a.b")
    with pytest.raises(KeyError):
        Texts({"a.b": "{name}"})("a.b")

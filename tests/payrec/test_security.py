"""What SECURITY.md tells people to look for is what keys look like."""

from __future__ import annotations

import random
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from payrec.constants import PROVIDER_KEYS_FRESH, PROVIDER_KEYS_STALE_MAX
from payrec.domain import keys

TEXT = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text(encoding="utf-8")

made = st.integers(0, 2**64).map(lambda seed: keys.generate(random.Random(seed).randbytes).text)  # noqa: S311
around = st.text(alphabet=" \n\t'\"=:;,/(){}<>-.", min_size=1)


def _block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


def _patterns() -> list[re.Pattern[str]]:
    [rule] = tomllib.loads(_block("toml"))["rules"]
    secret, before, after = re.findall(r"`(\S+?)`", TEXT.partition("a custom pattern:")[2])[:3]
    # Python writes the end of a text as \Z, and a lookaround stands for what is around the secret.
    custom = rf"(?:{before})({secret})(?:{after})".replace(r"\z", r"\Z")
    return [re.compile(_block("regex").strip()), re.compile(rule["regex"]), re.compile(custom)]


@given(key=made, before=around, after=around)
def test_every_pattern_finds_keys(key: str, before: str, after: str) -> None:
    for pattern in _patterns():
        for text in (key, before + key + after, before + key, key + after):
            [found] = pattern.findall(text)
            assert found == key
        for text in ("x" + key, key + "x", key[:-1], key.replace(".", "_")):
            assert pattern.findall(text) == []


def test_the_rule_for_gitleaks_has_what_a_rule_needs() -> None:
    [rule] = tomllib.loads(_block("toml"))["rules"]
    assert set(rule) == {"id", "description", "regex", "keywords"}
    assert all(word in keys.PREFIX for word in rule["keywords"])


@given(key=made, position=st.integers(0, keys.API_KEY_LENGTH - 1), digit=st.sampled_from(keys.ALPHABET))
def test_the_rule_of_the_checksum_is_the_keys_own(key: str, position: int, digit: str) -> None:
    names: dict[str, Any] = {}
    exec(_block("python"), names)  # noqa: S102 - what the document says is what is tried
    assert names["is_key"](key)
    changed = key[:position] + digit + key[position + 1 :]
    assert names["is_key"](changed) == (changed == key)


def test_periods_are_those_of_the_code() -> None:
    assert "for up to ten minutes more" in " ".join(TEXT.split())
    assert timedelta(minutes=10) == PROVIDER_KEYS_FRESH
    assert "for up to a day while the provider does not answer" in " ".join(TEXT.split())
    assert timedelta(days=1) == PROVIDER_KEYS_STALE_MAX


def test_it_is_one_page() -> None:
    assert len(TEXT.splitlines()) < 110

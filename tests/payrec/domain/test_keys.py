from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.domain import keys

PEPPER = b"p" * 32
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

base62 = st.text(alphabet=ALPHABET)
values = st.builds(
    keys.ApiKeyValue,
    public_id=st.text(alphabet=ALPHABET, min_size=16, max_size=16),
    secret=st.text(alphabet=ALPHABET, min_size=43, max_size=43),
)


def from_bytes(data: bytes) -> Callable[[int], bytes]:
    """Hand out the given bytes, then zeros."""
    rest = bytearray(data)

    def take(count: int) -> bytes:
        taken = bytes(rest[:count])
        del rest[:count]
        return taken.ljust(count, b"\0")

    return take


def test_a_new_key_has_the_published_shape_and_reads_back() -> None:
    value = keys.generate(secrets.token_bytes)

    assert re.fullmatch(r"\bpr_[0-9A-Za-z]{16}\.[0-9A-Za-z]{49}\b", value.text)
    assert len(value.text) == keys.API_KEY_LENGTH
    assert value.text.count(".") == 1
    assert keys.parse(value.text) == value


def test_the_checksum_is_the_crc32_of_everything_before_it_in_six_padded_digits() -> None:
    value = keys.generate(from_bytes(b""))
    body = "pr_" + "0" * 16 + "." + "0" * 43

    number = 0
    for digit in value.text[-6:]:
        number = number * 62 + ALPHABET.index(digit)
    assert value.text[:-6] == body
    assert number == zlib.crc32(body.encode())


def test_two_keys_differ() -> None:
    assert len({keys.generate(secrets.token_bytes).text for _ in range(100)}) == 100


def test_every_digit_is_equally_likely() -> None:
    every_byte = bytes(range(256))
    drawn = Counter(keys._base62(248, from_bytes(every_byte)))

    assert set(drawn.values()) == {4}
    assert len(drawn) == 62


def test_bytes_that_would_favour_some_digits_are_thrown_away() -> None:
    biased = from_bytes(bytes(range(248, 256)) * 20)

    assert keys.generate(biased).public_id == "0" * 16
    assert keys._base62(2, from_bytes(bytes([248, 1, 2, 3]))) == "12"
    assert keys._base62(2, from_bytes(bytes([1, 2, 3]))) == "12"


def test_no_more_is_drawn_than_a_key_takes() -> None:
    draws = [bytes([1, 2])]

    assert keys._base62(2, lambda _: draws.pop()) == "12"


def test_a_source_without_usable_bytes_is_an_error_and_not_a_loop() -> None:
    with pytest.raises(RuntimeError, match=r"^the source of random bytes is broken$"):
        keys.generate(lambda count: b"\xff" * count)


@settings(max_examples=100)
@given(value=values)
def test_a_key_reads_back(value: keys.ApiKeyValue) -> None:
    assert keys.parse(value.text) == value


@settings(max_examples=100)
@given(value=values, data=st.data())
def test_any_one_character_typo_is_refused(value: keys.ApiKeyValue, data: st.DataObject) -> None:
    text = value.text
    position = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET + "._-é ").filter(lambda character: character != text[position]))

    with pytest.raises(ValueError, match="API key"):
        keys.parse(text[:position] + other + text[position + 1 :])


@settings(max_examples=100)
@given(value=values, data=st.data())
def test_two_neighbours_swapped_are_refused(value: keys.ApiKeyValue, data: st.DataObject) -> None:
    text = value.text
    position = data.draw(st.integers(0, len(text) - 2))
    swapped = text[:position] + text[position + 1] + text[position] + text[position + 2 :]

    if swapped != text:
        with pytest.raises(ValueError, match="API key"):
            keys.parse(swapped)


@settings(max_examples=100)
@given(text=st.text(max_size=100))
def test_anything_else_is_refused_without_being_echoed(text: str) -> None:
    with pytest.raises(ValueError, match="not an API key") as refused:
        keys.parse(text)
    assert str(refused.value) == "not an API key"


def test_a_typing_error_is_told_from_what_is_no_key() -> None:
    text = keys.generate(from_bytes(b"")).text
    with pytest.raises(ValueError, match=r"^the checksum of the API key is wrong$"):
        keys.parse(text.replace("0", "1", 1))


@pytest.mark.parametrize("change", ["{}\n", " {}", "{}0", "PR_{}", "{}.x"])
def test_nothing_may_stand_around_a_key(change: str) -> None:
    with pytest.raises(ValueError, match="API key"):
        keys.parse(change.format(keys.generate(secrets.token_bytes).text))


def test_digits_of_other_scripts_are_no_digits() -> None:
    text = keys.generate(from_bytes(b"")).text
    with pytest.raises(ValueError, match="not an API key"):
        keys.parse(text.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}"))


def test_the_secret_stays_out_of_repr() -> None:
    value = keys.generate(secrets.token_bytes)

    assert value.secret not in repr(value)
    assert value.public_id in repr(value)


def test_the_digest_is_hmac_sha256_of_the_whole_key() -> None:
    value = keys.generate(secrets.token_bytes)

    assert keys.digest(value, PEPPER) == hmac.new(PEPPER, value.text.encode(), hashlib.sha256).digest()


def test_a_key_is_verified_under_its_own_pepper_only_and_gives_the_digest_under_the_first() -> None:
    value, other = keys.generate(secrets.token_bytes), keys.generate(secrets.token_bytes)
    stored, newer = keys.digest(value, PEPPER), keys.digest(value, b"n" * 32)

    assert keys.verified(value, stored, PEPPER) == stored
    assert keys.verified(value, stored, b"n" * 32, PEPPER) == newer
    assert keys.verified(value, stored, PEPPER, b"n" * 32) == stored
    assert keys.verified(value, stored, b"n" * 32) is None
    assert keys.verified(value, stored) is None
    assert keys.verified(other, stored, PEPPER) is None
    assert keys.verified(value, stored[:-1], PEPPER) is None
    assert keys.verified(value, bytes(32), PEPPER, b"n" * 32) is None


def test_a_short_pepper_is_refused() -> None:
    value = keys.generate(secrets.token_bytes)
    with pytest.raises(ValueError, match="pepper"):
        keys.digest(value, b"short")
    with pytest.raises(ValueError, match="pepper"):
        keys.verified(value, bytes(32), PEPPER, b"short")
    assert len(keys.digest(value, b"p" * keys.PEPPER_BYTES_MIN)) == 32

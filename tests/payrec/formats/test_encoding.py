from __future__ import annotations

import codecs
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.errors import UnreadableFileError
from payrec.formats.encoding import Decoder, Encoding, decoded, detect_encoding


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (codecs.BOM_UTF8 + b"a", Encoding("utf-8", mark_length=3)),
        (codecs.BOM_UTF16_LE + b"a\0", Encoding("utf-16-le", mark_length=2)),
        (codecs.BOM_UTF16_BE + b"\0a", Encoding("utf-16-be", mark_length=2)),
        ("<?xml version='1.0'?>".encode("utf-16-le"), Encoding("utf-16-le")),
        (b'<?xml version="1.0" encoding="UTF-8"?><a>\xe4</a>', Encoding("utf-8")),
        (b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe4</a>", Encoding("iso-8859-1")),
        (b'<?xml version="1.0" encoding="Windows-1252"?>', Encoding("cp1252")),
        (b'<?xml version="1.0" encoding="utf-16"?><a/>', Encoding("utf-8")),
        ("Übertrag".encode(), Encoding("utf-8")),
        ("Übertrag".encode("cp1252"), Encoding("cp1252", guessed=True)),
        (b"plain", Encoding("utf-8")),
    ],
)
def test_detection(data: bytes, encoding: Encoding) -> None:
    assert detect_encoding(data, complete=True) == encoding


def test_cut_character_at_the_end_of_the_head_is_no_error() -> None:
    torn = "ä".encode()[:1]
    assert detect_encoding(b"a" + torn, complete=False) == Encoding("utf-8")
    assert detect_encoding(b"a" + torn, complete=True) == Encoding("cp1252", guessed=True)


def test_profile_decides_unless_there_is_a_mark() -> None:
    assert detect_encoding(b"\xb3", complete=True, profile="windows-1250") == Encoding("cp1250")
    assert detect_encoding(codecs.BOM_UTF8, complete=True, profile="cp852").name == "utf-8"


@pytest.mark.parametrize("profile", ["zlib", "idna", "rot13", "unicode_escape", "no-such", "a\0b", ""])
def test_profile_cannot_name_what_is_no_encoding_of_text(profile: str) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        detect_encoding(b"a", complete=True, profile=profile)
    assert raised.value.reason == "encoding_unsupported"


@pytest.mark.parametrize("data", [codecs.BOM_UTF32_LE + b"a\0\0\0", b'<?xml version="1.0" encoding="EBCDIC-CP-US"?>'])
def test_unsupported(data: bytes) -> None:
    with pytest.raises(UnreadableFileError) as raised:
        detect_encoding(data, complete=True)
    assert raised.value.reason == "encoding_unsupported"


@settings(max_examples=60)
@given(st.text(max_size=60), st.sampled_from(["utf-8", "utf-16-le"]), st.integers(1, 7))
def test_pieces_decode_to_the_whole(text: str, encoding: str, size: int) -> None:
    decoder = Decoder(encoding)
    assert "".join(decoded(io.BytesIO(text.encode(encoding)), decoder, size=size)) == text
    assert not decoder.damaged


@settings(max_examples=100)
@given(st.binary(max_size=60), st.sampled_from(["utf-8", "utf-16-be", "cp1252"]), st.integers(1, 7))
def test_any_bytes_decode_and_damage_is_told(data: bytes, encoding: str, size: int) -> None:
    decoder = Decoder(encoding)
    text = "".join(decoded(io.BytesIO(data), decoder, size=size))
    try:
        assert text == data.decode(encoding)
        assert not decoder.damaged
    except UnicodeDecodeError:
        assert decoder.damaged
        assert "\ufffd" in text

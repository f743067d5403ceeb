"""Texts as 64-bit keys, made once at ingest and stored beside the row.

A key is the BLAKE2b-64 digest of the normalised text, read as a signed 64-bit integer, so that PostgreSQL's
``bigint`` and a column of integers hold it and matching never touches a text again. The lowest bit of the digest is
replaced: it is 1 when the normalised text could prove a payment by itself (at least ``PROVING_LENGTH_MIN`` characters,
one of them a digit). Equal texts have equal bits, so equality of keys is unharmed, and the engine knows from the key
alone whether a quoted reference proves or merely hints.

References and end-to-end ids share one normalisation, because banks and payers put either into the other's field.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from payrec.constants import KEYS_CACHED_MAX, REMITTANCE_KEYS_MAX, REMITTANCE_LENGTH_MAX, TEXT_LENGTH_MAX
from payrec.domain.matching.digits import quoted_digits, reference_digits, series_digits
from payrec.domain.matching.tokens import NOT_REFERENCE, fold, tokens_of

REFERENCE_LENGTH_MIN: Final = 3
"""Characters that a normalised reference needs to have a key at all."""

PROVING_LENGTH_MIN: Final = 5
"""Characters that a normalised reference needs, with a digit among them, to prove a payment by itself."""

TOKEN_LENGTH_MIN: Final = 4
"""Characters of a normalised word, or join of words, of a remittance text."""

NAME_WORDS_MAX: Final = 4
"""Words of a name that is found in a text, legal forms not counted."""

TEXT_WORDS_MAX: Final = 12
"""Words of a text among which a name is looked for: the first, without numbers and legal forms."""

_DIGIT: Final = re.compile(r"[0-9]", re.ASCII)
_NAME_WORD: Final = re.compile(r"[^\W_]+")
_ABBREVIATION_DOT: Final = re.compile(r"(?<=\b\w)\.(?=\w\b)")
_TRANSLITERATION: Final = re.compile(r"([AOU])E+")

_PLACEHOLDERS: Final = frozenset(
    {"NOTPROVIDED", "NOTAVAILABLE", "NONREF", "NOREF", "NOREFERENCE", "NONE", "NULL", "UNKNOWN", "NICHTANGEGEBEN"}
)
"""What systems write where they have no reference, name or account.

``NOTPROVIDED`` is the SEPA rulebooks', ``NONREF`` SWIFT's.
"""

_LEGAL_FORM_WORDS: Final = (
    "AB AG APS AS ASA BV BVBA CO COKG CORP CORPORATION CV DOO EG EIRL EK EV EU GBR GESMBH GMBH GMBHCOKG INC "
    "INCORPORATED KFT KG KGAA KK LDA LIMITED LLC LLP LP LTD LTDA MBH NV OHG OOD OU OY OYJ PARTG PC PLC PLLC PTE PTY "
    "PVT SA SARL SAS SASU SC SCA SCE SE SL SLU SNC SPA SPOL SPRL SPZOO SRL SRO UAB UG ULC VOF ZOO"
)
"""Legal forms, folded: words of a name that banks and payers add and drop at will."""

_LEGAL_FORMS: Final = frozenset(_LEGAL_FORM_WORDS.split())

_TEXT_WORDS: Final = (
    "account ach acompte amount and auftrag bacs bank banque beleg beneficiary betaling betrag bill bonifico card cash "
    "chaps charge check cheque client collection compte concepto credit customer danke date debit deposit desc direct "
    "einzug facture factura faktura fattura faster fee for from fuer gehalt giro gutschrift incoming instant "
    "invoice inward konto kunde lastschrift lohn loyer miete monthly name number nummer order orig outgoing pago "
    "paiement pay payment payments payout przelew purchase rechnung received recu ref reference referenz refund rent "
    "salaire salary sale sammler sender sepa standing statement swift thank thanks transaction transfer transferencia "
    "ueberweisung value verwendungszweck virement von wire with you zahlung zahlungseingang"
)
"""What texts of banks and payers say anyway: a counterparty who is called so is not found in them."""


class ExpectedKeys(NamedTuple):
    """The keys of one expected transaction; None where there is no usable text."""

    reference_key: int | None
    end_to_end_key: int | None
    name_key: int | None
    account_key: int | None
    """The counterparty's account."""
    own_account_key: int | None
    group_key: int | None
    reference_digits: int | None
    """As ``payrec.domain.matching.digits.reference_digits`` has them."""


class IncomingKeys(NamedTuple):
    """The keys of one incoming transaction; None where there is no usable text."""

    reference_keys: list[int]
    """What the line quotes, best first: at most ``REMITTANCE_KEYS_MAX``."""
    end_to_end_key: int | None
    name_key: int | None
    account_key: int | None
    """The counterparty's account."""
    own_account_key: int | None
    group_key: int | None
    quoted_digits: list[int] | None
    """As ``payrec.domain.matching.digits.quoted_digits`` has them."""
    ultimate_name_key: int | None
    """On whose behalf the counterparty pays, or is paid."""
    text_name_keys: list[int] | None
    """As ``text_name_keys`` returns them, of a line that has no counterparty's name."""
    series_digits: list[int] | None
    """As ``payrec.domain.matching.digits.series_digits`` has them."""


_EMPTY: Final = blake2b(digest_size=8)
"""The state before the first byte: copying it takes half the time of making one."""

_SIGNED: Final = Struct(">q")
_NUMBERS: Final = [Struct(f">{count}q").unpack for count in range(REMITTANCE_KEYS_MAX + 1)]
"""What reads so many numbers."""


def _digest(data: bytes) -> int:
    state = _EMPTY.copy()
    state.update(data)
    found: int = _SIGNED.unpack(state.digest())[0]
    return found


def _key(normal: str) -> int:
    """Return the key of a normalised ASCII reference, its lowest bit telling whether it could prove."""
    proving = len(normal) >= PROVING_LENGTH_MIN and _DIGIT.search(normal) is not None
    return (_digest(normal.encode("ascii")) & ~1) | proving


def is_proving(key: int) -> bool:
    """Tell whether the text of a reference key is long and distinct enough to prove a payment by itself."""
    return bool(key & 1)


def normalise_reference(text: str) -> str:
    """Return the text folded (NFKD), in capitals, with nothing but ``A``-``Z`` and ``0``-``9`` left."""
    if text.isalnum() and text.isascii():
        return text.upper()
    return NOT_REFERENCE.sub("", fold(text))


def reference_key(text: str | None) -> int | None:
    """Return the key of a reference, or None when fewer than ``REFERENCE_LENGTH_MIN`` characters are left of it."""
    if not text:
        return None
    normal = normalise_reference(text)
    if len(normal) < REFERENCE_LENGTH_MIN or normal in _PLACEHOLDERS:
        return None
    return _key(normal)


def end_to_end_key(text: str | None) -> int | None:
    """Return the key of an end-to-end id; placeholders such as ``NOTPROVIDED`` have none."""
    return reference_key(text)


def group_key(text: str | None) -> int | None:
    """Return the key of a payout, batch or other group id."""
    return reference_key(text)


@lru_cache(maxsize=KEYS_CACHED_MAX)
def account_key(text: str | None) -> int | None:
    """Return the key of an account: an IBAN or any other number, without blanks and marks, in capitals."""
    if not text:
        return None
    normal = normalise_reference(text)
    return _digest(b"a:" + normal.encode("ascii")) if normal else None


def normalise_name(text: str) -> str:
    """Return the words of a name, folded, without legal forms, sorted, joined by blanks.

    Letters of every script stay. ``AE``, ``OE`` and ``UE`` become one letter, because banks write ``Müller`` as
    ``MUELLER`` and as ``MULLER``. A name of legal forms alone keeps them.
    """
    words = set(_name_words(text[:TEXT_LENGTH_MAX]))
    return " ".join(sorted(words - _LEGAL_FORMS or words))


def _name_words(text: str) -> list[str]:
    """Return the words of a name, folded, as they stand."""
    folded = fold(text)
    if not folded.isascii():
        folded = "".join(c for c in folded if not unicodedata.combining(c))
    if "." in folded:
        folded = _ABBREVIATION_DOT.sub("", folded)
    return _NAME_WORD.findall(_TRANSLITERATION.sub(r"\1", folded))


@lru_cache(maxsize=KEYS_CACHED_MAX)
def name_key(text: str | None) -> int | None:
    """Return the key of a counterparty's name, whatever the order of its words and its legal form."""
    if not text:
        return None
    normal = normalise_name(text)
    return _name_digest(normal) if normal else None


_SAID_ANYWAY: Final = frozenset(_name_words(_TEXT_WORDS))


def _name_digest(normal: str) -> int:
    return _digest(b"n:" + normal.encode("utf-8", "surrogatepass"))


NAMES_OF_NOBODY: Final = frozenset(
    _name_digest(normalise_name(text))
    for text in (*_PLACEHOLDERS, "NOT PROVIDED", "NOT AVAILABLE", "NICHT ANGEGEBEN", "N/A")
)
"""Keys of what systems write where they have no name; a rule may name them all the same."""

ACCOUNTS_OF_NOBODY: Final = frozenset(account_key(text) for text in _PLACEHOLDERS) - {None}
"""The same of accounts."""


def text_name_keys(remittance: str | None) -> list[int] | None:
    """Return the keys of what may be a counterparty's name in a text, as ``name_key`` makes them; None of no words.

    ``NAME_WORDS_MAX`` of each word: of itself, of it and the next one, and so on; 0 where there are not so many words,
    none but what texts say anyway, or fewer than ``TOKEN_LENGTH_MIN`` letters. So a key's place tells which words it is
    of.
    """
    words = _name_words(remittance[:REMITTANCE_LENGTH_MAX]) if remittance else []
    words = [word for word in words if not word.isdecimal() and word not in _LEGAL_FORMS][:TEXT_WORDS_MAX]
    keys = []
    for first in range(len(words)):
        for end in range(first + 1, first + NAME_WORDS_MAX + 1):
            own = set(words[first:end]) if end <= len(words) else set()
            normal = "" if own <= _SAID_ANYWAY else " ".join(sorted(own))
            keys.append(_name_digest(normal) if len(normal) >= TOKEN_LENGTH_MIN else 0)
    return keys if any(keys) else None


def tie_key(*parts: str | int | None) -> int:
    """Return the key that orders rows which are otherwise equal: of the externalId, or of the whole content.

    Parts are kept apart by their type and length, so ``("ab", "c")`` and ``("a", "bc")`` differ.
    """
    pieces: list[bytes] = []
    for part in parts:
        data = b"" if part is None else str(part).encode("utf-8", "surrogatepass")
        pieces.append(f"{type(part).__name__}:{len(data)}:".encode())
        pieces.append(data)
    return _digest(b"".join(pieces))


def remittance_keys(
    remittance: str | None, structured_reference: str | None = None, *, end_to_end_id: str | None = None
) -> list[int]:
    """Return the keys of everything that a line quotes, best first, unique, at most ``REMITTANCE_KEYS_MAX``.

    First the structured reference and the end-to-end id as they are, then what holds a digit and has at least
    ``TOKEN_LENGTH_MIN`` characters: words, runs of digits, valid ISO 11649 references printed in groups, and joins
    of up to ``TOKEN_WORDS_MAX`` neighbouring words, the shorter joins first, then all words of a text that is short.
    """
    found = tokens_of(remittance) if remittance else []
    first: list[int] = []
    if structured_reference or end_to_end_id:
        references = reference_key(structured_reference), reference_key(end_to_end_id)
        first = [key for key in references if key is not None]
    if len(found) + len(first) <= REMITTANCE_KEYS_MAX:
        return list(dict.fromkeys(first + _token_keys(found)))
    found = [token for token in dict.fromkeys(found) if len(token) >= TOKEN_LENGTH_MIN]
    keys = dict.fromkeys(first)
    while found and (missing := REMITTANCE_KEYS_MAX - len(keys)):
        keys.update(dict.fromkeys(_token_keys(found[:missing])))
        found = found[missing:]
    return list(keys)


def _token_keys(tokens: list[bytes]) -> list[int]:
    """Return the keys of tokens, all of which have a digit, so that their length alone tells whether they could prove.

    Tokens that are too short have none.
    """
    if not tokens:
        return []
    digests = []
    begin = _EMPTY.copy
    for token in tokens:
        state = begin()
        state.update(token)
        digests.append(state.digest())
    # All at once: a number by itself takes as long as its digest.
    numbers = _NUMBERS[len(tokens)](b"".join(digests))
    if min(map(len, tokens)) >= PROVING_LENGTH_MIN:
        return [number | 1 for number in numbers]
    return [
        number | 1 if len(token) >= PROVING_LENGTH_MIN else number & ~1
        for token, number in zip(tokens, numbers, strict=True)
        if len(token) >= TOKEN_LENGTH_MIN
    ]


def expected_keys(
    *,
    reference: str | None = None,
    end_to_end_id: str | None = None,
    counterparty_name: str | None = None,
    counterparty_account: str | None = None,
    account: str | None = None,
    group: str | None = None,
) -> ExpectedKeys:
    """Make the keys of an expected transaction from its texts; ``account`` is the own one, ``group`` the groupKey."""
    return ExpectedKeys(
        reference_key=reference_key(reference),
        end_to_end_key=end_to_end_key(end_to_end_id),
        name_key=name_key(counterparty_name),
        account_key=account_key(counterparty_account),
        own_account_key=account_key(account),
        group_key=group_key(group),
        reference_digits=reference_digits(reference),
    )


def incoming_keys(
    *,
    remittance: str | None = None,
    structured_reference: str | None = None,
    end_to_end_id: str | None = None,
    counterparty_name: str | None = None,
    counterparty_account: str | None = None,
    account: str | None = None,
    group: str | None = None,
    ultimate_counterparty_name: str | None = None,
) -> IncomingKeys:
    """Make the keys of an incoming transaction from its texts; ``account`` is the own one, ``group`` the groupKey."""
    # By position, and without a call for what is not there: a file has millions of lines.
    return IncomingKeys(
        remittance_keys(remittance, structured_reference, end_to_end_id=end_to_end_id),
        reference_key(end_to_end_id) if end_to_end_id else None,
        name_key(counterparty_name) if counterparty_name else None,
        account_key(counterparty_account) if counterparty_account else None,
        account_key(account) if account else None,
        reference_key(group) if group else None,
        quoted_digits(remittance, structured_reference),
        name_key(ultimate_counterparty_name) if ultimate_counterparty_name else None,
        None if counterparty_name else text_name_keys(remittance),
        series_digits(remittance),
    )

"""Tables below each other in one file: rows are of the account that stands above their own header."""

from __future__ import annotations

import pytest

from support.csv_files import HEADER, entries, reason, signed, skipped

FIRST, SECOND = "DE89370400440532013000", "DE02120300000000202051"
ROWS = "2026-01-15;a;100.00;EUR\n2026-01-16;b;-25.50;EUR\n"
ALL = [10_000, -2_550] * 2


def section(account: str, header: str = HEADER) -> str:
    return f"Account:;{account}\n{header}{ROWS}\n"


def test_rows_of_another_account_are_not_those_of_the_first_one() -> None:
    """They were, and only the lines between the tables were told."""
    assert reason(section(FIRST) + section(SECOND)) == "csv_several_tables"
    assert reason(section(FIRST) + f"Savings of A. Smith\n{HEADER}{ROWS}") == "csv_several_tables"


AGRICOLE = """\
Compte n° 12345678901;
Solde au 31/01/2026 1 234,56 €
Liste des opérations du compte entre le 01/01/2026 et le 31/01/2026;

Date;Libellé;Débit euros;Crédit euros;
31/01/2026;"VIREMENT
CLIENT";;1 000,00;
30/01/2026;EDF;45,60;;

"""


def test_the_first_of_two_tables_is_not_lost_where_it_is_short() -> None:
    """Most lines below its header are not its own: the second header was the one, and the rows above it were lost."""
    assert signed(entries(AGRICOLE)) == [100_000, -4_560]
    assert reason(AGRICOLE + AGRICOLE.replace("12345678901", "98765432109")) == "csv_several_tables"
    long = AGRICOLE.replace("Compte", "M. DUPONT JEAN\nAgence de Lyon\nTéléchargement\nLivret A\nCompte")
    assert reason(long + long) == "csv_several_tables"
    # A head of two lines has no rows between them.
    assert signed(entries("Date;Montant;Débit euros\n" + AGRICOLE)) == [100_000, -4_560]


@pytest.mark.parametrize("between", ["", "\n\n"])
def test_files_that_were_put_together_are_one_table(between: str) -> None:
    text = HEADER + ROWS + between + HEADER + ROWS
    assert signed(entries(text)) == ALL
    assert ("csv_header_row", 4 + between.count("\n")) in skipped(text)


def test_the_same_account_above_each_is_one_table() -> None:
    text = section(FIRST) * 2
    assert {entry.account for entry in entries(text)} == {FIRST}
    assert signed(entries(text)) == ALL


def test_another_account_in_a_column_needs_no_line_above() -> None:
    header = HEADER.replace("Date;", "Own account;Date;")
    rows = "".join(f"{FIRST};{line}" for line in ROWS.splitlines(keepends=True))
    text = f"Export\n{header}{rows}Export\n{header}{rows.replace(FIRST, SECOND)}"
    assert [entry.account for entry in entries(text)] == [FIRST, FIRST, SECOND, SECOND]


def test_a_table_of_other_columns_is_another_one() -> None:
    other = "Date;Amount;Description;Currency\n"
    assert reason(HEADER + ROWS + other + ROWS) == "csv_several_tables"


@pytest.mark.parametrize(
    "stray",
    [
        "Amount in EUR;unknown;\n",
        "Currency;Amount\nEUR;74.50\n",
        "2026-01-17;Date;Amount;EUR\n",
        "Date of export;2026-01-31\n",
        "Thank you\n",
    ],
)
def test_a_line_that_only_has_words_of_a_header_is_none(stray: str) -> None:
    assert signed(entries(HEADER + ROWS + stray + ROWS)) == ALL

"""What is known of the exports in ``tests/data/exports``: made up, in the shapes that banks and spreadsheets write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).parents[1] / "data" / "exports"

Fact = tuple[str, int, str, str | None, str | None]
"""Month and day, signed minor units, currency, counterparty, and the last line of the text."""


@dataclass(kw_only=True)
class Export:
    """What is known of a file."""

    name: str
    entries: list[Fact] = field(default_factory=list)
    currency: str | None = None
    """What answers the question for the currency, which is asked then."""
    amount_column: int | None = None
    """What answers the question for the columns, which is asked then."""
    sign: str | None = None
    """What answers the question for the sign, which is asked then."""
    skipped: list[str] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        """The bytes of the file."""
        return (FILES / self.name).read_bytes()


_FACTS: Final = """
abn_no_header.tab amount=6
    03-02 -8500 EUR | - | SEPA Incasso Energie BV
    03-03 238050 EUR | - | SEPA Overboeking Jansen Bouw
american_amex.csv currency=USD sign=inverted
    03-02 -8500 USD | - | ELECTRIC CO
    03-13 238050 USD | - | AUTOPAY PAYMENT - THANK YOU
bank_of_america.csv currency=USD skipped=csv_balance_row
    03-02 -8500 USD | - | ELECTRIC CO DES:BILL
    03-13 238050 USD | - | JONES INC DES:INV-0117
banque_postale.csv
    03-13 238050 EUR | - | VIREMENT DE SARL DUBOIS
    03-02 -8500 EUR | - | PRELEVEMENT DE EDF
barclays.csv currency=GBP
    03-02 -8500 GBP | - | BRITISH GAS
    03-13 238050 GBP | - | JONES LTD INV-0117
bbva.csv
    03-02 -8500 EUR | - | Recibo marzo
    03-13 238050 EUR | - | Factura 2026-0117
bnp.csv
    03-02 -8500 EUR | - | EDF FACTURE MARS
    03-13 238050 EUR | - | SARL DUBOIS FACTURE 2026-0117
boursorama.csv currency=EUR
    03-02 -8500 EUR | - | PRLV SEPA EDF
    03-03 238050 EUR | - | VIR SARL DUBOIS
bunq.csv currency=EUR
    03-02 -8500 EUR | Energie BV | Termijn maart
    03-03 238050 EUR | Jansen Bouw | Factuur
capital_one.csv currency=USD
    03-02 -8500 USD | - | Withdrawal from ELECTRIC CO
    03-13 238050 USD | - | Deposit from JONES INC
chase.csv currency=USD
    03-02 -8500 USD | - | ORIG CO NAME:ELECTRIC CO
    03-13 238050 USD | - | ORIG CO NAME:JONES INC INV-0117
commerzbank.csv
    03-02 -8500 EUR | - | Stadtwerke Strom Abschlag
    03-03 238050 EUR | - | Müller GmbH RE-2026-0117
deutsche_bank.csv skipped=csv_balance_row
    03-02 -8500 EUR | Stadtwerke | Strom
    03-03 238050 EUR | Müller GmbH | RE-2026-0117
dkb.csv
    03-02 -4590 EUR | Stadtwerke Musterstadt | Strom
    03-03 238050 EUR | Mueller GmbH | RE-2026-0117
    03-05 -5000 EUR | Tank AG | Tanken
fineco.csv currency=EUR
    03-02 -8500 EUR | - | ENEL bolletta
    03-13 238050 EUR | - | ROSSI SRL fattura
french_bank.csv
    03-13 -8500 EUR | - | PRÉLÈVEMENT EDF « Facture mars »
    03-03 238050 EUR | - | FACTURE 2026-0117
german_bank_cp1252.csv
    03-02 -125000 EUR | - | Miete März Büro Süd
    03-03 238050 EUR | - | RE-2026-0117 Müller & Söhne
    03-04 -990 EUR | - | Kontoführungsgebühr
german_soll_haben.csv skipped=csv_balance_row
    03-02 -125000 EUR | - | Miete
    03-03 238050 EUR | - | RE-2026-0117
    03-04 -990 EUR | - | Entgelt
german_soll_haben_mark.csv
    03-02 -125000 EUR | - | Miete
    03-03 238050 EUR | - | RE-2026-0117
ing_de.csv
    03-04 -4990 EUR | Stadtwerke | Strom
    03-03 238050 EUR | Müller GmbH | RE-2026-0117
ing_nl.csv
    03-02 -8500 EUR | Energie BV | Termijn maart
    03-03 238050 EUR | Jansen Bouw | Factuur 2026-0117
ing_nl_new.csv
    03-03 238050 EUR | Jansen Bouw | Factuur 2026-0117
    03-02 -8500 EUR | Energie BV | Termijn maart
intesa.csv currency=EUR
    03-02 -8500 EUR | - | ENEL ENERGIA bolletta marzo
    03-13 238050 EUR | - | ROSSI SRL fattura 2026-0117 perché saldo
lloyds.csv currency=GBP
    03-13 238050 GBP | - | JONES LTD INV-0117
    03-02 -8500 GBP | - | BRITISH GAS
mbank.csv
    03-02 -8500 PLN | - | ZAKUP PRZY UŻYCIU KARTY ŻABKA
    03-03 238050 PLN | - | PRZELEW PRZYCHODZĄCY ŁUKASZ NOWAK
mbank_old.csv skipped=csv_balance_row
    03-02 -8500 PLN | SPÓŁDZIELNIA ŻÓŁTA | CZYNSZ MARZEC
    03-03 238050 PLN | ŁUKASZ NOWAK | FAKTURA 2026/0117
monzo.csv
    03-02 -8500 GBP | British Gas | BRITISH GAS
    03-13 238050 GBP | Jones Ltd | INV-0117
n26.csv
    03-02 -8500 EUR | Stadtwerke | Strom
    03-03 238050 EUR | Mueller GmbH | RE-2026-0117
    03-04 -1842 EUR | Diner NY | -
n26_de.csv
    03-02 -8500 EUR | Stadtwerke | Strom
    03-03 238050 EUR | Mueller GmbH | RE-2026-0117
nationwide.csv
    03-02 -8500 GBP | - | BRITISH GAS
    03-13 238050 GBP | - | JONES LTD INV-0117
natwest.csv currency=GBP
    03-13 238050 GBP | - | JONES LTD , INV-0117 , FP 13/03/26
    03-02 -8500 GBP | - | BRITISH GAS
paypal_activity.csv
    03-02 12000 GBP | Jones Ltd | INV-0117
    03-13 -10000 GBP | - | -
paypal_german.csv
    03-02 12000 EUR | Müller GmbH | RE-0117
    03-03 -110000 EUR | - | -
pko.csv
    03-03 238050 PLN | - | Tytuł: FAKTURA 2026/0117
    03-02 -8500 PLN | - | Lokalizacja: Kraj: POLSKA Miasto: ŁÓDŹ
qonto.csv
    03-02 -8500 EUR | EDF | Facture mars
    03-13 238050 EUR | SARL Dubois | 2026-0117
qonto_en.csv
    03-02 -8500 EUR | EDF | Facture mars
    03-13 238050 EUR | SARL Dubois | 2026-0117
rabobank.csv
    03-02 -8500 EUR | Energie BV | Termijn maart
    03-03 238050 EUR | Jansen Bouw | Factuur 2026-0117
revolut.csv skipped=csv_undated_pending_row,csv_not_done_row
    03-02 -8500 EUR | - | Energy Co
    03-03 238050 EUR | - | Payment from Jones Ltd
revolut_business.csv
    03-02 -8520 EUR | - | March
    03-03 238050 EUR | - | INV-0117
societe_generale.csv
    03-02 -8500 EUR | - | PRELEVEMENT EDF
    03-13 238050 EUR | - | VIR RECU SARL DUBOIS
spain_cargo_abono.csv currency=EUR
    03-02 -8500 EUR | - | RECIBO LUZ
    03-13 238050 EUR | - | TRANSFERENCIA
spain_santander.csv
    03-02 -8500 EUR | - | RECIBO IBERDROLA
    03-13 238050 EUR | - | TRANSFERENCIA DE CONSTRUCCIONES NÚÑEZ
sparkasse_camt.csv
    03-02 -8500 EUR | Stadtwerke Musterstadt | Strom Abschlag
    03-03 238050 EUR | Mueller GmbH | RE-2026-0117
    03-04 -5000 EUR | Tank AG | Tankstelle
starling.csv
    03-02 -8500 GBP | British Gas | March
    03-13 238050 GBP | Jones Ltd | INV-0117
swiss_ubs.csv
    03-03 238050 CHF | - | RE-2026-0117
    03-02 -8500 CHF | - | Strom
uk_paid.csv currency=GBP
    03-02 -8500 GBP | - | DD BRITISH GAS
    03-13 238050 GBP | - | FPI JONES LTD INV-0117
unicredit_it.csv
    03-02 -8500 EUR | - | ADDEBITO SEPA ENEL
    03-13 238050 EUR | - | BONIFICO ROSSI SRL
us_mdy_usd.csv
    03-02 -8500 USD | - | ELECTRIC CO
    03-13 238050 USD | - | JONES INC
volksbank.csv
    03-03 238050 EUR | Mueller GmbH | RE-2026-0117
    03-02 -8500 EUR | Stadtwerke | Strom
wells_fargo_no_header.csv currency=USD amount=1
    03-02 -8500 USD | - | ELECTRIC CO BILL
    03-13 238050 USD | - | JONES INC INV-0117
wise.csv
    03-13 238050 EUR | Jones Ltd | INV-0117
    03-02 -8500 EUR | Energy Co | March
"""


def _exports() -> Iterator[Export]:
    export: Export | None = None
    for line in _FACTS.strip().splitlines():
        if line.startswith(" ") and export is not None:
            money, who, text = (part.strip() for part in line.split(" | ", 2))
            day, minor, currency = money.split()
            export.entries.append((day, int(minor), currency, _or_none(who), _or_none(text)))
            continue
        if export is not None:
            yield export
        name, *said = line.split()
        known = dict(word.split("=") for word in said)
        export = Export(
            name=name,
            currency=known.get("currency"),
            amount_column=int(known["amount"]) if "amount" in known else None,
            sign=known.get("sign"),
            skipped=known["skipped"].split(",") if "skipped" in known else [],
        )
    if export is not None:
        yield export


def _or_none(text: str) -> str | None:
    return None if text == "-" else text


EXPORTS: Final = list(_exports())

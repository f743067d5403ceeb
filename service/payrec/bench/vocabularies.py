"""Words of which names, references and remittance texts of generated data are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FIRST_NAMES: Final = (
    "Anna", "Jürgen", "Zoë", "Peter", "Łucja", "Marek", "Chloé", "Hugo", "Inés", "Pablo", "Giulia", "Matteo", "Femke",
    "Daan", "Grace", "Oliver", "Søren", "Astrid", "Björn", "Käthe", "Noah", "Emma", "Tomás", "Renée",
)  # fmt: skip

SURNAME_STARTS: Final = (
    "Berg", "Stein", "Müh", "Kauf", "Lang", "Groß", "Wald", "Eber", "Fried", "Hoff", "Kröger", "Linden", "Rosen",
    "Schön", "Weiß", "Acker", "Brück", "Dorn", "Falken", "Grün", "Hart", "Jäger", "Kessel", "Löwen", "Moor",
)  # fmt: skip

SURNAME_ENDS: Final = (
    "mann", "er", "hardt", "feld", "son", "bach", "ski", "stra", "ini", "eau", "dez", "berg", "lund", "ley", "ova",
    "meier",
)  # fmt: skip

SYLLABLES: Final = (
    "al", "bra", "cen", "dor", "el", "fin", "gra", "hel", "in", "ka", "lum", "mar", "nor", "or", "pra", "qua", "ri",
    "sol", "tec", "ul", "ven", "xi", "zan", "ber", "cor", "dyn", "eco", "flo",
)  # fmt: skip

BRANCHES: Final = (
    "Logistik", "Bau", "Consulting", "Handel", "Trading", "Systems", "Foods", "Textiles", "Énergie", "Transports",
    "Servicios", "Medical", "Druckerei", "Möbel", "Software", "Marine", "Agrar", "Design", "Gastronomia", "Techniek",
)  # fmt: skip

LEGAL_FORMS: Final = (
    "GmbH", "AG", "GmbH & Co. KG", "Ltd", "Limited", "S.A.", "SARL", "S.L.", "S.p.A.", "S.r.l.", "B.V.", "Sp. z o.o.",
    "Inc.", "e.K.", "AB", "Oy", "A/S",
)  # fmt: skip

ABBREVIATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Logistik": "Log.",
        "Consulting": "Cons.",
        "Systems": "Sys.",
        "Transports": "Transp.",
        "Servicios": "Serv.",
        "Druckerei": "Druck.",
        "Software": "SW",
        "Gastronomia": "Gastro",
        "Trading": "Trdg",
        "Medical": "Med.",
    }
)
"""How banks and payers shorten a word of a name."""

IBAN_DIGITS: Final[Mapping[str, int]] = MappingProxyType(
    {"DE": 18, "AT": 16, "ES": 20, "PL": 24, "FR": 23, "CH": 17, "IT": 22, "FI": 14}
)
"""Digits after the check digits, by country; countries with letters there are left out, but for Italy's one."""

QUOTES: Final = (
    "Rechnung {r}", "RE-Nr. {r} vielen Dank", "Invoice {r}", "Payment of invoice {r}", "Facture {r}", "Règlement {r}",
    "Factura {r}", "Pago {r}", "Fattura {r}", "Saldo fattura {r}", "Factuur {r}", "Faktura {r}", "Zapłata {r}",
    "Ihre Rechnung {r} abzgl. nichts", "ref {r}", "{r} merci",
)  # fmt: skip
"""Remittance texts around one reference."""

NOISES: Final = (
    "KD {k} {q} vom {d}.", "{q} customer no {k} dated {d} contract {n}", "SEPA {q} DATUM {d} UHRZEIT 11.42",
    "{q} client {k} échéance {d} tél 0{n}", "Lieferschein {n} {q} Kunde {k}", "{q} pedido {n} cliente {k}",
    "/ROC/{n}/URI/{q} {k}", "ordine {n} del {d} {q}", "{q} // {n} // {k}", "klant {k} bestelling {n} {q}",
)  # fmt: skip
"""Remittance texts with numbers that are nobody's reference: ``k`` a customer, ``n`` any number, ``d`` a date."""

SILENT: Final = (
    "", "", "Überweisung", "Zahlung, danke", "payment", "thank you", "virement", "transferencia", "bonifico",
    "betaling", "przelew", "monthly payment", "wie besprochen",
)  # fmt: skip
"""Remittance texts that say nothing."""

NAMING: Final = (
    "ACH CREDIT {p} {n}", "{p} PAYMENT", "Überweisung von {p}", "TRANSFER FROM {p}, REF {n}", "Gutschrift {p} {n}",
    "VIR RECU {p}", "ORIG CO NAME:{p} ORIG ID:{n}", "{p}",
)  # fmt: skip
"""Remittance texts of banks that have no field for the payer's name."""

MANY: Final = ("Rechnungen {r}", "Invoices {r}", "Sammelzahlung {r}", "factures {r}", "facturas {r}", "{r}")
"""Remittance texts around several references."""

BATCHES: Final = ("PAYOUT {b}", "Settlement {b} net", "Auszahlung {b}", "batch {b} cards", "{b}")
"""Remittance texts around the id of a batch."""

INSTALMENTS: Final = ("Rate {i} {r}", "{r} instalment {i}", "acompte {i} facture {r}", "{i}. Teilzahlung zu {r}")
"""Remittance texts of one of several payments of an item."""

CHARGES: Final = (
    "Kontoführung", "card terminal fee", "Lohn und Gehalt", "Miete Büro", "Finanzamt USt", "interest", "cash deposit",
    "Versicherung Beitrag", "frais bancaires", "Abo Zeitschrift", "energy supplier",
)  # fmt: skip
"""Remittance texts of what nobody expected."""

COMMON_REFERENCES: Final = ("RENT", "MIETE", "ABO", "MEMBERSHIP", "LOYER", "DONATION")
"""References that many items share."""

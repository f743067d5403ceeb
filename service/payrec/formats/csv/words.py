"""The words that banks use as column headings, as row labels and as marks, folded (``fold``).

Languages: English, German, Dutch, French, Spanish, Italian, Portuguese, Polish, Czech, Danish, Swedish, Hungarian,
Lithuanian. Within a role the more specific word stands first: of two columns the one with the earlier word wins.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LETTERS: Final = str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "æ": "ae", "đ": "d", "œ": "oe", "ı": "i"})
_NOT_WORDS: Final = re.compile(r"[^0-9a-z]+")


def fold(text: str) -> str:
    """Return the text in lower case without accents, everything but letters and digits as single spaces."""
    lowered = text.casefold().translate(_LETTERS)
    decomposed = unicodedata.normalize("NFKD", lowered)
    return _NOT_WORDS.sub(" ", "".join(c for c in decomposed if not unicodedata.combining(c))).strip()


def mark_word(cell: str) -> str:
    """Return what a mark is looked up by: folded, and ``+`` and ``-`` as they stand."""
    return fold(cell) or cell.strip()


def _phrases(text: str) -> list[str]:
    """Split at ``;`` and line ends."""
    return [phrase.strip() for phrase in text.strip().replace("\n", ";").split(";")]


STOP_WORDS: Final = frozenset(
    _phrases(
        """
        a;al;am;an;as;au;av;d;da;das;de;del;della;delle;dem;den;der;des;di;do;du;el;en;het;i;in;l;la;le;od;of;per;pro;the
        to;van;vom;von;w;z;ze
        """
    )
)
"""Left out of a heading that is not known as it stands: ``Montant de l'opération`` is ``montant operation``."""

_ROLES: Final = {
    "bookingDate": """
        booking date;date booked;posting date;posted date;post date;date posted;accounting date;buchungstag
        buchungsdatum;buchung;boekingsdatum;boekdatum;datum boeking;date comptable;date comptabilisation
        date operation;fecha operacion;fecha contable;fecha movimiento;data contabile;data contabilizzazione
        data operazione;data registrazione;data movimento;data lancamento;data mov;data ksiegowania;data operacji
        data transakcji;datum zauctovani;datum provedeni;datum transakce;bogforingsdato;bogfort;bogforingsdag
        bokforingsdag;bokforingsdatum;bokford;konyveles datuma;konyvelesi datum;konyveles napja;tranzakcio datuma
        operacijos data;booked at;reskontradatum;bookingdate
        completed date;date completed;settlement date;operation date;dateop;date op
        transaction date;trans date;transaktionsdatum;transaktionsdato;transactiedatum
        datum transactie;date transaction;date;datum;data;dato;fecha;datums;started date;date started;tag
    """,
    "valueDate": """
        value date;valuta date;valutadatum;wertstellung;wertstellungstag;wertstellungsdatum;valuta;wert;rentedatum
        date valeur;valeur;fecha valor;f valor;data valuta;data valor;valor;data waluty;datum valuty;valuteringsdato
        rentedato;valutadag;valutadato;rantedag;ertekdatum;erteknap;erteknapja;valiutavimo data;interest date;dateval
        date val;value;valuedate
    """,
    "amount": """
        amount account currency;settlement amount;settled amount;booked amount;total amount;montant total
        amount;transaction amount;credit debit amount;betrag;umsatz;betrag inkl mwst
        buchungsbetrag;bedrag;transactiebedrag;montant;montant operation;montant transaction;importe;importe operacion
        cantidad;importo;importo operazione;importancia;montante;valor;valor operacao;kwota;kwota operacji
        kwota transakcji;kwota rachunku;castka;objem;castka uctu;belob;belopp;osszeg;terheles jovairas osszege;suma
        payment amount;amount local currency;sum;total;value;betrag eur;af bij bedrag;gross;gross amount;brutto
        bruttobetrag;montant brut;brut;bruto;importe bruto;lordo;importo lordo
    """,
    "net": """
        net amount;net;netto;nettobetrag;montant net;neto;importe neto;importo netto;netto bedrag
    """,
    "fee": """
        total fee;total fees;fee;fees;fee amount;processing fee;processing fees;transaction fee;transaction fees
        gebuhr;gebuhren;frais;commission;comision;commissione;tariffa;tarief;kosten;oplata;prowizja
    """,
    "tax": """
        tax amount;tax;vat amount;vat;sales tax;steuerbetrag;steuer;mwst;mwst betrag;umsatzsteuer;ust;montant tva;tva
        importe iva;importo iva;iva;btw bedrag;btw;podatek;kwota vat;dph;moms;momsbelob;momsbelopp;afa
    """,
    "debit": """
        debit amount;amount debit;debit;debits;withdrawal;withdrawals;withdrawal amount;paid out;money out;payments
        outgoing;soll;sollbetrag;belastung;lastschrift;ausgaben;ausgang;debet;af;bedrag af;uitgaven;debits amount
        montant debit;cargo;cargos;debe;adeudo;dare;addebiti;addebito;uscite;debito;debitos;saidas;obciazenia
        obciazenie;wydatki;ma dati;vydaje;debetas;terheles;haevet;ud;uttag;utgifter;ut
    """,
    "credit": """
        credit amount;amount credit;credit;credits;deposit;deposits;deposit amount;paid in;money in;receipts;incoming
        haben;habenbetrag;gutschrift;einnahmen;eingang;bij;bedrag bij;inkomsten;montant credit;abono;abonos;haber
        avere;accrediti;accredito;entrate;credito;creditos;entradas;uznania;uznanie;wplywy;dal;prijmy;kreditas;kredit
        jovairas;indsat;ind;insattning;insattningar;in
    """,
    "mark": """
        d c;c d;dc;cd;dr cr;cr dr;debit credit;credit debit;debit credit indicator;credit debit indicator;indicator
        debit or credit;credit or debit;debit credit mark;credit debit mark;debit credit code;credit debit code
        creditdebit;debitcredit;transaction direction;payment direction;inflow outflow
        soll haben;haben soll;s h;h s;soll haben kennzeichen;soll haben kz;s h kennzeichen;s h kennz;vorzeichen;richtung
        af bij;bij af;d k;k d;dk;debet credit;debet kredit;kredit debet;debetas kreditas
        direction;sign;sens;debit ou credit;dare avere;avere dare;segno;debito credito;debe haber
        jellege;t k;terheles jovairas;wn ma
        transaction type;umsatzart;type;typ;side
    """,
    "currency": """
        account currency;settlement currency;settled currency;transaction currency;currency
        currency code;currency iso code;ccy;cur;curr;wahrung;waehrung;kontowahrung
        kontowaehrung;munt;muntsoort;valutacode;devise;devises;divisa;moneda;moeda;divisa cuenta;waluta
        waluta rachunku;payment currency;mena;mena uctu;valuta;valutakod;devizanem;penznem;valiuta;devize
    """,
    "balance": """
        running balance;balance after transaction;balance after booking;account balance;balance;saldo
        saldo nach buchung;kontostand;saldo na mutatie;saldo na transactie;solde;solde apres operation;saldo contabile
        saldo disponible;saldo po operacji;zustatek;zustatek po transakci;bokfort saldo;egyenleg;konyvelt egyenleg
        likutis;stan konta;running bal;saldo po transakcji;saldo na trn;accountbalance;guthaben;abschlusssaldo
        schlusssaldo
    """,
    "ownAccount": """
        own account;own iban;account iban;iban auftraggeberkonto;iban auftragskonto;auftragskonto;auftraggeberkonto
        eigenes konto;own account number
        eigen rekening;rekening opdrachtgever;compte donneur ordre;conto ordinante proprio;moj rachunek;vlastni ucet
        sajat szamlaszam;bezeichnung auftragskonto iban;iban kontoinhaber;iban compte
    """,
    "account": """
        account;account no;account nr;account number;account id;iban;konto;kontonummer;kontonr;iban kontonummer
        rekening;rekeningnummer;iban bban;compte;numero compte;no compte;cuenta;numero cuenta;conto;numero conto;conta
        numero conta;rachunek;numer rachunku;nr rachunku;ucet;cislo uctu;kontonummer iban;szamlaszam;szamla;saskaita
        saskaitos numeris;saskaitos nr;numer konta;nr konta;accountnum
    """,
    "counterpartyAccount": """
        counterparty account;counterparty iban;counterparty account number;beneficiary account;payee account
        partner iban;recipient account;kontonummer iban auftraggeber empfanger;kontonummer gegenkonto;gegenkonto
        iban zahlungsbeteiligter;iban zahlungspflichtiger;kontonummer iban zahlungspflichtiger;tegenrekening
        rekeningnummer tegenpartij;rekening tegenpartij;tegenrekening iban bban;tegenrekening iban;compte contrepartie
        iban contrepartie;compte beneficiaire;cuenta beneficiario;cuenta contraparte;iban beneficiario
        conto controparte;iban controparte;iban beneficiario ordinante;conta destino;rachunek kontrahenta
        nr rachunku kontrahenta;numer rachunku kontrahenta;nr rachunku nadawcy odbiorcy;rachunek przeciwstawny
        protiucet;cislo protiuctu;protistrana ucet;modkonto;modtagerkonto;mottagarkonto;motkonto;partner szamlaszama
        ellenoldali szamlaszam;partner szamla;gavejo saskaita;moketojo saskaita;korespondento saskaita;counterparty
        counterpartyaccount
    """,
    "payerName": """
        payer;payer name;zahlungspflichtiger;zahlungspflichtige r;zahlungspflichtige;auftraggeber;emetteur;donneur ordre
        ordenante;ordinante;nadawca;afsender;avsandare;moketojas;odesilatel;megbizo;remitente;mittente;sender
        sender name
    """,
    "payeeName": """
        payee;payee name;beneficiary;beneficiary name;recipient;recipient name;zahlungsempfanger;zahlungsempfangerin
        zahlungsempfanger in;empfanger;beguenstigter;begunstigter;begunstigde;beneficiaire;nom beneficiaire
        beneficiario;destinatario;odbiorca;prijemce;modtager;mottagare;kedvezmenyezett;gavejas
    """,
    "counterpartyName": """
        counterparty name;counterparty;counter party;merchant;beneficiary payer;name;partner;partner name
        beguenstigter zahlungspflichtiger;begunstigter zahlungspflichtiger;auftraggeber beguenstigter
        begunstigter auftraggeber;beguenstigter auftraggeber;auftraggeber begunstigter;auftraggeber empfanger
        empfanger auftraggeber;name zahlungsbeteiligter;naam tegenpartij;tegenpartij;naam;naam omschrijving
        contrepartie;nom contrepartie;tiers;contraparte;controparte;ordenante beneficiario;beneficiario ordinante
        kontrahent;nazwa kontrahenta;dane kontrahenta;nadawca odbiorca;nazev protiuctu;nazev protistrany;protistrana
        jmeno protistrany;navn;modpart;mottagare avsandare;namn;partner neve;ellenoldali nev;moketojas gavejas
        gavejas moketojas;korespondentas;counterpartyname
    """,
    "ultimateCounterpartyName": """
        ultimate counterparty;ultimate counterparty name;ultimate party;ultimate party name;on behalf of
        naam uiteindelijke partij;uiteindelijke partij;abweichender zahlungsbeteiligter
        name abweichender zahlungsbeteiligter
    """,
    "counterpartyBic": """
        counterparty bic;bic counterparty;bic tegenpartij;bic contrepartie;bic beneficiario;bic controparte
        bic zahlungsbeteiligter;gavejo banko kodas;bic;bic swift;swift;swift code;bic swift code;blz;bankleitzahl
        bic banku
    """,
    "structuredReference": """
        structured reference;structured communication;creditor reference;gestructureerde mededeling
        communication structuree;strukturierte referenz;qr referenz;referencia estructurada;riferimento strutturato
        viitenumero;ocr;betalingskenmerk;strukturalt kozlemeny;structuredreference
    """,
    "endToEndId": """
        end to end id;end to end reference;endtoendid;end to end;e2e;kundenreferenz end end;end end referenz
        kundenreferenz;reference bout bout;referencia extremo extremo;identifiant bout bout
    """,
    "bankTransactionCode": """
        bank transaction code;transaction code;type code;buchungstext;buchungsart;mutatiesoort;code;rubriek;umsatztyp
        transaktionstyp;payment method;methode paiement;umsatzart
        type operation;causale;causale abi;tipo movimento;tipo movimiento;typ operacji;typ transakce;rodzaj transakcji
        rodzaj operacji;tranzakcio tipusa;transaction type;type;typ
    """,
    "remittance": """
        remittance;remittance information;unstructured remittance;purpose;payment purpose;payment details;details
        detail;description;transaction description;narrative;narration;particulars;memo;message;text;reference text
        verwendungszweck;vwz;zahlungsgrund;buchungsdetails;beschreibung;mitteilung;buchungsinformation;omschrijving
        mededeling;mededelingen;vrije mededeling;libelle;libelle operation;detail ecriture;communication;motif
        description operation;communication libre;label;concepto;descripcion;observaciones;concepto ampliado;mas datos
        descrizione;descrizione operazione;causale descrizione;descrizione estesa;dettagli;descricao;historico
        descritivo;opis;opis operacji;tytul;tytulem;tytul operacji;tytul przelewu;szczegoly transakcji;popis
        zprava prijemce;zprava;ucel platby;poznamka;popis transakce;tekst;beskrivelse;besked;meddelelse;meddelande
        beskrivning;transaktion;kozlemeny;megjegyzes;leiras;rubrik;paskirtis;mokejimo paskirtis;aprasymas
        operacijos aprasymas;detales;opis transakcji;descrizione completa;description complete
        avisierungstext;texte notification;notification text;text mottagare
        payment reference;item title;artikelbezeichnung;subject;betreff;note;notes
    """,
    "originalAmount": """
        original amount;instructed amount;foreign amount;amount foreign currency;transaction currency amount
        originalbetrag;ursprungsbetrag;betrag ursprungswahrung;fremdwahrungsbetrag;betrag originalwahrung
        oorspronkelijk bedrag;montant origine;montant devise;importe original;importe divisa;importo originale
        valor original;kwota oryginalna;kwota waluty;puvodni castka;castka mene obchodu;oprindeligt belob
        ursprungligt belopp;eredeti osszeg;pradine suma;customer facing amount;oorspr bedrag;orig amount
        betrag fremdwahrung;local amount;montant total local
    """,
    "originalCurrency": """
        original currency;instructed currency;foreign currency;originalwahrung;ursprungswahrung;fremdwahrung
        oorspronkelijke munt;devise origine;divisa original;valuta originale;moeda original;waluta oryginalna
        puvodni mena;oprindelig valuta;ursprunglig valuta;eredeti devizanem;pradine valiuta;mena obchodu;oorspr munt
        orig currency;fremdwahrung;local currency
    """,
    "reference": """
        reference;ref;reference no;reference number;transaction id;transaction reference;bank reference;record id
        doc no;document no;referenz;belegnummer;mandatsreferenz;glaubiger id;glaeubiger id
        customer reference;referentie;kenmerk
        reference operation;numero operation;referencia;numero documento;riferimento;numero referencia;referencja
        numer referencyjny;reference platby;variabilni symbol;specificky symbol;konstantni symbol;vs;ks;ss
        id transakce;referencenummer;referens;verifikationsnummer;hivatkozas;tranzakcio azonosito;nuoroda
        dokumento numeris;check number;cheque number;cheque;check no;card number;id;transaktionscode
        invoice number;invoice no;rechnungsnummer;numero facture;factuurnummer;numero factura;numero fattura
        numer faktury;merchant reference;order;order number;order id;bestellnummer
    """,
    "status": """
        status;transaction status;payment status;state;info;zahlungsstatus;transaktionsstatus
        buchungsstatus;umsatzstatus;statut;etat;estado;stato;stav;allapot;busena
    """,
    "impact": """
        balance impact;auswirkung auf guthaben
    """,
    "event": """
        record type
    """,
}

ROLE_PHRASES: Final[dict[str, dict[str, int]]] = {
    role: {phrase: rank for rank, phrase in enumerate(_phrases(text))} for role, text in _ROLES.items()
}
"""Role to its folded headings, each with its rank; the smaller rank is the more specific heading."""

KNOWN_HEADINGS: Final = frozenset(phrase for phrases in ROLE_PHRASES.values() for phrase in phrases)

CREDIT_MARKS: Final = frozenset(
    _phrases(
        """
        +;a;abono;accredito;avere;bij;c;cr;crdt;credit;credited;credito;credits;einnahme;eingang;encaissement;entrada
        entrata;entree;gutschrift;h;haben;haber;in;inbound;income;incoming;incoming payment;incoming transfer;ind;inflow
        ingreso;inkomend;inn;insattning;jovairas;k;kredit;kreditas;ma;money in;paid in;payment received;plus;prijem
        receive;received;recette;uznanie;wplyw;zahlungseingang;zugang
        """
    )
)
DEBIT_MARKS: Final = frozenset(
    _phrases(
        """
        -;abgang;addebito;af;ausgabe;ausgang;belastung;cargo;d;dare;db;dbit;debe;debet;debetas;debit;debited;debito
        debits;decaissement;depense;dr;expense;gasto;lastschrift;minus;money out;obciazenie;out;outbound;outcome
        outflow;outgoing;outgoing payment;outgoing transfer;paid out;payment sent;s;saida;send;sent;soll;sortie;t
        terheles;ud;uitgaand;uscita;ut;uttag;vydaj;wn;wyplyw;zahlungsausgang
        """
    )
)
"""Marks of a direction column, folded; ``+`` and ``-`` as they stand."""

CLEAR_DEBIT_MARKS: Final = frozenset(
    _phrases("addebito;belastung;cargo;dbit;debet;debit;debito;debits;money out;outbound;outgoing;paid out;soll")
)
"""Those that are no other word either, such as the state of a payment, or a letter."""

PENDING_WORDS: Final = frozenset(
    _phrases(
        """
        a venir;authorised;authorized;blokada;cekajici;en attente;fuggoben;gereserveerd;in attesa;in behandeling
        laukiama;nezauctovano;non contabilizzato;oczekujaca;pendente;pendiente;pending;reserved;reserverad;reserverat
        reserveret;rezervuota;umsatz vorgemerkt;vantande;venter;vorgemerkt;vormerkung;zarolt
        """
    )
)
"""Words in place of a date, or in a status column, that say the row is not booked yet."""

CURRENCY_WORDS: Final = {"euro": "EUR", "euros": "EUR", "eur": "EUR"}
"""Words for a currency at the end of a heading (``Crédit euros``), besides the ISO 4217 codes."""

SETTLED_AMOUNTS: Final = frozenset({"settlement amount", "settled amount"})
"""Headings of amounts of the account, which may have those of the payer beside them, under any other name."""

PAYMENT_REFERENCES: Final = frozenset(
    _phrases(
        """
        reference;ref;payment reference;referenz;referentie;kenmerk;referencia;riferimento;referencja;referens
        hivatkozas;nuoroda;customer reference;reference platby;invoice number;invoice no;rechnungsnummer;numero facture
        factuurnummer;numero factura;numero fattura;numer faktury;merchant reference;order;order number;order id
        bestellnummer
        """
    )
)
"""References that people write to each other; the others are numbers of the bank's own."""

OPENING_WORDS: Final = frozenset(
    _phrases(
        """
        alter kontostand;alter saldo;ancien solde;anfangssaldo;balance brought forward;beginning balance;beginsaldo
        brought forward;eroffnungssaldo;ingaende balans;ingaende saldo;likutis pradziai;nyito egyenleg;nyitoegyenleg
        opening balance;openingssaldo;pocatecni zustatek;pradinis likutis;previous balance;primo saldo;primosaldo
        saldo anterior;saldo inicial;saldo iniziale;saldo poczatkowe;saldo poczatkowy;saldo precedente;saldovortrag
        solde initial;solde ouverture;solde precedent;start balance;starting balance;startsaldo;vorig saldo
        """
    )
)
CLOSING_WORDS: Final = frozenset(
    _phrases(
        """
        abschlusssaldo;balance carried forward;carried forward;closing balance;eindsaldo;end balance;ending balance
        endsaldo;galutinis likutis;konecny zustatek;likutis pabaigai;neuer kontostand;neuer saldo;new balance
        nieuw saldo;nouveau solde;s a l d o;saldo actual;saldo attuale;saldo final;saldo finale;saldo koncowe
        saldo koncowy;schlusssaldo;slotsaldo;solde cloture;solde final;ultimo saldo;ultimosaldo;utgaende balans
        utgaende saldo;zaro egyenleg;zaroegyenleg
        """
    )
)
TURNOVER_WORDS: Final = frozenset(
    _phrases(
        """
        apyvarta;credit turnover;debit turnover;forgalom;gesamtumsatz;obrat;obraty;obroty;omsaetning;omsattning;omzet
        suma obrotow;summe umsatze;total credit;total credits;total debit;total debits;total des operations
        total movimientos;total operations;total turnover;totale movimenti;turnover;turnovers;umsatzsumme
        """
    )
)
TOTAL_WORDS: Final = frozenset(
    _phrases(
        """
        balance;celkem;gesamt;gesamtsumme;grand total;i alt;ialt;is viso;kontostand;osszesen;razem;saldo;solde;soucet
        sum;suma;summa;summe;totaal;totais;total;totale;totales;totali;totals;totaux
        """
    )
)
"""Too general to be trusted on a row that has a date: a fuel station is called Total."""

KIND_HEADINGS: Final = frozenset(
    [
        *ROLE_PHRASES["bankTransactionCode"],
        *("detailed type", "event type", "record type", "reporting category", "kind", "event", "action", "action type"),
        *(
            "entry type",
            "movement type",
            "payment type",
            "type of transaction",
            "transaction kind",
            "tipo",
            "operation",
        ),
    ]
)
"""Headings of what a row is: a sale, a fee, a payout."""

OUTGOING_KINDS: Final = frozenset(
    _phrases(
        """
        refund;refunds;partial refund;full refund;payment refund;refunded;return;returns;chargeback;chargebacks
        secondchargeback;refundedbulk;settledreversed
        charge back;charged back;withdrawal;withdrawals;fee;fees;transaction fee;processing fee
        payment fee;stripe fee;gocardless fee;commission;deduction;refund deduction;charge back deduction
        dd return deduction;balance deduction;chargeback penalty;erstattung;ruckerstattung;ruckbuchung;ruckzahlung
        sent;payment sent;money sent;money out;paid out;outgoing payment;outgoing transfer;expense;expenses;ach debit
        wire debit;bank debit;wire out;withdraw;cash withdrawal;atm withdrawal;ausgabe;ausgang;zahlungsausgang
        gebuhr;gebuhren;terugbetaling;kosten;remboursement;frais;retrait;reembolso
        devolucion;comision;retiro;rimborso;commissione;comissao;zwrot;prowizja;oplata
        """
    )
)
"""What a provider calls rows that take money from an account, whether it writes them with a sign or without."""

PAYOUT_KINDS: Final = frozenset(_phrases("payout;payouts;auszahlung;uitbetaling;versement;wyplata"))
"""The same of what goes to the bank; in a list of payouts it is money in."""

CARD_HEADINGS: Final = frozenset(
    _phrases(
        """
        card;card number;card no;card member;cardmember;purchased by;card holder;cardholder;cardholder name;name on card
        kreditkarte;kreditkartennummer;kartennummer;karteninhaber;kaart;kaartnummer;kaarthouder;carte;numero de carte
        titulaire de la carte;tarjeta;numero de tarjeta;titular de la tarjeta;carta;numero carta;titolare della carta
        cartao;numero do cartao;karta;numer karty;posiadacz karty
        """
    )
)
"""Headings that only the table of a payment card has, or that of an account whose payments were by card."""

CARD_DATES: Final = (
    frozenset({"transaction date", "trans date"}),
    frozenset({"post date", "posted date", "posting date", "clearing date"}),
)
"""What a card's table has one of each of: when it was used, and when that was booked."""

PURCHASE_KINDS: Final = frozenset(_phrases("sale;purchase;purchases;einkauf;kauf;aankoop;achat;compra;acquisto;zakup"))
"""What a card's table calls money out, so that its sign there is that of all money out."""

"""ISO 4217 currencies and their minor-unit exponents.

Source: ISO 4217 list one (SIX Interbank Clearing), as amended through 2026. Not Unicode CLDR, whose digits are for
display and differ from the bank's (CLDR has 0 for IQD, RSD, ALL, LBP, AFN where ISO 4217 has 3 or 2).
Withdrawn European currencies are kept because old statements carry them.
"""

from __future__ import annotations

from typing import Final

_ZERO = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"
_FOUR = "CLF UYW"
_TWO = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF "
    "CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF "
    "IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN "
    "MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS "
    "SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW "
    "ZWG"
)
_WITHDRAWN_TWO = "ATS BEF CUC CYP DEM EEK ESP FIM FRF GRD HRK IEP ITL LTL LUF LVL MTL NLG PTE SIT SKK SLL VEF ZWL"
_WITHDRAWN_ZERO = "BYR MGF ROL TRL"

MINOR_UNITS: Final[dict[str, int]] = {
    **dict.fromkeys(_TWO.split(), 2),
    **dict.fromkeys(_ZERO.split(), 0),
    **dict.fromkeys(_THREE.split(), 3),
    **dict.fromkeys(_FOUR.split(), 4),
    **dict.fromkeys(_WITHDRAWN_TWO.split(), 2),
    **dict.fromkeys(_WITHDRAWN_ZERO.split(), 0),
}
"""Currency code to the number of decimal digits of its minor unit."""

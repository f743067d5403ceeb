"""The reader of SWIFT MT940 and MT942."""

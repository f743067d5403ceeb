"""The reader of ISO 20022 camt.052, camt.053 and camt.054."""

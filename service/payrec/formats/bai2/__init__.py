"""The reader of BAI2, the cash management reports of US banks."""

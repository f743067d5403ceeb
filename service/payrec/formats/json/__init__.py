"""The reader of transactions in JSON and JSON lines."""

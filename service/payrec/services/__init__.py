"""The use cases; each owns its transactions."""

"""The matching engine: columns and rules in, proposals with reasons out."""

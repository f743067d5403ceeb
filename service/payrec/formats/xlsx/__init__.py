"""The reader of workbooks: their rows, read by the rules of tables."""

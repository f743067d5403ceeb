"""The reader of tables, with detection of their dialect, and profiles."""

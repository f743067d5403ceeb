"""All SQL: the doors to the database and the statements behind them."""

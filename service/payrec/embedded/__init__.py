"""An identity provider and a PostgreSQL server for development, tests and the demo."""

"""payrec: multi-tenant payment reconciliation."""

__version__ = "0.1.0"
"""Version of the distribution, as in pyproject.toml."""

"""The terms and rules of reconciliation, without framework, clock or database."""

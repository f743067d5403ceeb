"""The routes of the interface: adapters between the wire and the services."""

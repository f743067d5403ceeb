"""The console: pages for people, made on the server, which call the same services as the REST interface."""

"""Where files are pulled from: object stores, SFTP and HTTP servers, each behind the same few methods.

Nothing of a connector is imported before a worker needs it; ``registry`` says which one a kind of source has.
"""

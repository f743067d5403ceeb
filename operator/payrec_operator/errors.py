"""What the operator's side of the ports raises.

::

    OperatorError
     +-- InvalidSpecError             the resource asks for what cannot be; a sentence for people
     +-- SecretsUnavailableError      the API server does not answer, or not as it should
     |    +-- NamespaceTerminatingError
     +-- SecretConflictError          somebody else's Secret, or changed since it was read
     +-- SecretForbiddenError         the operator's account lacks a right

No message may contain what a Secret holds.
"""

from __future__ import annotations


class OperatorError(Exception):
    """The root."""


class InvalidSpecError(OperatorError):
    """The resource asks for what cannot be. The text is a sentence that says where and why."""


class SecretsUnavailableError(OperatorError):
    """The API server cannot be reached, or fails; trying again later helps."""


class NamespaceTerminatingError(SecretsUnavailableError):
    """The namespace is being deleted: nothing can be made in it, and the Tenant will follow."""


class SecretConflictError(OperatorError):
    """A Secret of that name is somebody else's, or is not as it was when it was read."""


class SecretForbiddenError(OperatorError):
    """Secrets may not be written in the Tenant's namespace: a right is missing, or a quota or policy is against it."""

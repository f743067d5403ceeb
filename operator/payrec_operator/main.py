"""What ``kopf run -m payrec_operator.main`` loads. Importing it registers the handlers and does nothing else."""

from __future__ import annotations

from payrec_operator import handlers

__all__ = ["handlers"]

"""``payrec openapi``: the document, without a database or a single setting."""

from __future__ import annotations

import argparse
import json

from pydantic import SecretStr

from payrec import openapi
from payrec.commands.terminal import say
from payrec.config import SECRET_BYTES_MIN, Config
from payrec.factory import Factory, create_context
from payrec.main import create_api


def run(_arguments: argparse.Namespace) -> int:
    """Print the document."""
    # Built from the defaults alone: what the environment sets, or lacks, changes nothing of the interface.
    nothing = SecretStr("-" * SECRET_BYTES_MIN)
    config = Config.model_construct(
        database_url="postgresql://", api_key_pepper=nothing, encryption_key=nothing, idp_issuer_url="https://-"
    )
    app = create_api(Factory(create_context(config)))
    say(json.dumps(openapi.document(app), indent=2, ensure_ascii=False))
    return 0

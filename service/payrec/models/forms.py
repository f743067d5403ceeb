"""What the console's forms ask for by their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class FormQuery(BaseModel):
    """The fields of a form that is sent by an address: a browser sends the empty ones too, which are not given."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, values: Any) -> Any:
        return {name: value for name, value in values.items() if value != ""} if isinstance(values, Mapping) else values

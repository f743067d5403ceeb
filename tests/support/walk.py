"""Requests for every operation of an OpenAPI document, made of values that the test chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    spec: dict[str, Any]
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """How the operation is written."""
        return f"{self.method} {self.path}"

    @property
    def in_path(self) -> bool:
        """Whether the path has a parameter."""
        return "{" in self.path

    @property
    def query_parameters(self) -> list[tuple[str, dict[str, Any]]]:
        """Names and schemas of the query parameters."""
        return [
            (p["name"], self.resolve(p.get("schema", {})))
            for p in self.spec.get("parameters", [])
            if p["in"] == "query"
        ]

    @property
    def body_schema(self) -> dict[str, Any] | None:
        """Schema of the JSON body."""
        content = self.spec.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        return None if schema is None else self.resolve(schema)

    def at(self, value: str) -> str:
        """Return the path with every parameter set to ``value``."""
        return "/".join(quote(value, safe="") if part.startswith("{") else part for part in self.path.split("/"))

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follow references, and take the alternative that is not null."""
        while True:
            if "$ref" in schema:
                schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
            elif "properties" in schema:
                return schema
            elif found := [s for s in schema.get("anyOf", schema.get("oneOf", [])) if s.get("type") != "null"]:
                schema = found[0]
            else:
                return schema

    def example(self, schema: dict[str, Any], text: str) -> Any:
        """Return a value of the schema that says ``text`` wherever a text may say anything."""
        schema = self.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "integer" | "number":
                return max(1, schema.get("minimum", 1))
            case "boolean":
                return True
            case "array":
                return [self.example(schema.get("items", {}), text)]
            case "object" if "properties" in schema:
                wanted = schema.get("required", ())
                return {name: self.example(schema["properties"][name], text) for name in wanted}
            case "object":
                return {"q": text}
        match schema.get("format"):
            case "date":
                return "2024-03-04"
            case "date-time":
                return "2030-03-04T05:06:07Z"
        return text[: schema.get("maxLength", len(text))]

    def bodies(self, texts: Sequence[str]) -> Iterator[Any]:
        """Return a body of the required members, a complete one, and one more for each member that is optional."""
        schema = self.body_schema
        if schema is None:
            return
        if schema.get("type") != "object" or "properties" not in schema:
            for text in texts:
                yield self.example(schema, text)
            return
        optional = [name for name in schema["properties"] if name not in schema.get("required", ())]
        numbers = [n for n in optional if self.resolve(schema["properties"][n]).get("type") == "integer"]
        flags = [n for n in optional if self.resolve(schema["properties"][n]).get("type") == "boolean"]
        for text in texts:
            base = self.example(schema, text)
            yield base
            # What completes a body: an amount, or a flag.
            complete = {**base, **{n: self.example(schema["properties"][n], text) for n in (*numbers[:1], *flags[:2])}}
            yield complete
            for name in optional:
                yield {**complete, name: self.example(schema["properties"][name], text)}


def operations(document: dict[str, Any]) -> list[Operation]:
    """Return every operation of the document."""
    return [
        Operation(method=method.upper(), path=path, spec=item[method], document=document)
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]

"""The Tenant resource as it is read: metadata that is always there, a spec that may be wrong, a status from before.

The resource's definition refuses most of what is refused here. It is checked again, because the definition in the
cluster may be older or newer than the operator; for the same reason unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from payrec.domain.principal import ENVIRONMENTS
from payrec.domain.principal import Environment as EnvironmentName
from payrec.domain.slugs import slug_problem
from payrec.domain.tenant_resources import ResourceOwner, WantedTenant, WantedUser
from payrec_operator.constants import (
    API_KEYS_MAX,
    ENVIRONMENTS_MAX,
    FINALIZER,
    INVALID_SPEC_PROBLEMS_MAX,
    REQUEST_LENGTH_MAX,
    ROTATION_INTERVAL_MIN,
    ROTATION_OVERLAP_DEFAULT,
    USERS_MAX,
)
from payrec_operator.durations import parse_duration
from payrec_operator.errors import InvalidSpecError

PREFIX: Final = "payrec.dev/"
"""Of the annotations that are verbs."""

VERBS: Final = ("rotate", "paused", "adopt", "abandon")
"""What may follow; and, after the first and a dot, the name of a key."""


def _slug(value: Any) -> Any:
    problem = slug_problem(value) if isinstance(value, str) else None
    if problem is not None:
        raise PydanticCustomError("slug", "{problem}", {"problem": problem})
    return value


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise PydanticCustomError("duration", "{problem}", {"problem": str(error)}) from None


Name = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
SecretName = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Duration = Annotated[timedelta, BeforeValidator(_duration)]


class _Part(BaseModel):
    """A part of the spec: what is known of it is strict, what is not is ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="ignore", strict=True, frozen=True, hide_input_in_errors=True
    )


class EnvironmentSpec(_Part):
    """An environment that is to be there, or to be gone."""

    name: EnvironmentName
    ensure: Literal["present", "absent"] = "present"
    suspended: bool = False


class RotationSpec(_Part):
    """How often a key is replaced, and how long the one before goes on working."""

    interval: Duration
    overlap: Duration | None = None

    @model_validator(mode="after")
    def _in_proportion(self) -> RotationSpec:
        if self.interval < ROTATION_INTERVAL_MIN:
            raise PydanticCustomError("interval", "interval must be at least 1h")
        if self.overlap is not None and self.overlap >= self.interval:
            raise PydanticCustomError("overlap", "overlap must be shorter than interval")
        return self


class ApiKeySpec(_Part):
    """A key, and the Secret that holds it."""

    name: Name
    environment: EnvironmentName
    secret_name: SecretName
    permissions: Annotated[list[Literal["read", "write"]], Field(min_length=1, max_length=2)]
    rotation: RotationSpec | None = None

    @property
    def read(self) -> bool:
        """Whether it opens what reads."""
        return "read" in self.permissions

    @property
    def write(self) -> bool:
        """Whether it opens what writes."""
        return "write" in self.permissions

    @property
    def overlap(self) -> timedelta:
        """How long the key before goes on working."""
        if self.rotation is None:
            return ROTATION_OVERLAP_DEFAULT
        if self.rotation.overlap is not None:
            return self.rotation.overlap
        return min(ROTATION_OVERLAP_DEFAULT, self.rotation.interval / 2)


class UserSpec(_Part):
    """A user; all environments of the resource unless named."""

    username: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    subject: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    roles: Annotated[list[Literal["viewer", "operator", "approver", "admin"]], Field(min_length=1, max_length=4)]
    environments: Annotated[list[EnvironmentName], Field(max_length=ENVIRONMENTS_MAX)] | None = None


class TenantSpec(_Part):
    """What the resource asks for."""

    slug: Annotated[str, BeforeValidator(_slug)]
    display_name: Annotated[str, StringConstraints(max_length=200)] | None = None
    environments: Annotated[list[EnvironmentSpec], Field(min_length=1, max_length=ENVIRONMENTS_MAX)] = Field(
        default_factory=lambda: [EnvironmentSpec(name=name) for name in ENVIRONMENTS]
    )
    settings: dict[str, Any] = Field(default_factory=dict)
    api_keys: Annotated[list[ApiKeySpec], Field(max_length=API_KEYS_MAX)] = Field(default_factory=list)
    users: Annotated[list[UserSpec], Field(max_length=USERS_MAX)] = Field(default_factory=list)
    suspended: bool = False
    deletion_policy: Literal["Retain", "Delete"] = "Retain"

    @model_validator(mode="after")
    def _consistent(self) -> TenantSpec:
        names = {e.name for e in self.environments}
        _unique("environments[].name", [e.name for e in self.environments])
        _unique("apiKeys[].name", [k.name for k in self.api_keys])
        _unique("apiKeys[].secretName", [k.secret_name for k in self.api_keys])
        _unique("users[].username", [u.username for u in self.users])
        if any(k.environment not in names for k in self.api_keys):
            raise PydanticCustomError("environment", "every apiKeys[].environment must name an entry of environments")
        if self.deletion_policy != "Delete" and any(e.ensure == "absent" for e in self.environments):
            raise PydanticCustomError("absent", "ensure: absent drops data and needs deletionPolicy: Delete")
        return self

    @property
    def present(self) -> list[EnvironmentSpec]:
        """The environments that are to be there."""
        return [e for e in self.environments if e.ensure == "present"]

    @property
    def absent(self) -> list[EnvironmentSpec]:
        """The environments that are to be gone."""
        return [e for e in self.environments if e.ensure == "absent"]

    @property
    def keys(self) -> list[ApiKeySpec]:
        """The keys that are to be there: none of an environment that is to be gone."""
        present = {e.name for e in self.present}
        return [k for k in self.api_keys if k.environment in present]

    @property
    def wanted(self) -> WantedTenant:
        """What is named of the tenant itself."""
        return WantedTenant(name=self.display_name or None, suspended=self.suspended, settings=self.settings)

    @property
    def wanted_users(self) -> list[WantedUser]:
        """The users, each with the environments that it may enter."""
        present = [e.name for e in self.present]
        return [
            WantedUser(
                username=u.username,
                subject=u.subject,
                roles=tuple(u.roles),
                environments=tuple(present if u.environments is None else u.environments),
            )
            for u in self.users
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantResource:
    """A Tenant object as it was read."""

    owner: ResourceOwner
    generation: int
    annotations: Mapping[str, str]
    deleting: bool
    others: tuple[str, ...]
    """Finalizers of others, which keep it there when we have let it go."""
    raw_spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> TenantResource:
        """Return the object; its spec is not looked at yet."""
        metadata = body["metadata"]
        return cls(
            owner=ResourceOwner(uid=metadata["uid"], namespace=metadata["namespace"], name=metadata["name"]),
            generation=int(metadata.get("generation") or 0),
            annotations=dict(metadata.get("annotations") or {}),
            deleting=bool(metadata.get("deletionTimestamp")),
            others=tuple(name for name in metadata.get("finalizers") or () if name != FINALIZER),
            raw_spec=_mapping(body.get("spec")),
            status=_mapping(body.get("status")),
        )

    def spec(self) -> TenantSpec:
        """Return what the resource asks for.

        Raises
        ------
        InvalidSpecError
        """
        try:
            return TenantSpec.model_validate(self.raw_spec)
        except ValidationError as error:
            raise InvalidSpecError(_sentence(error)) from None

    @property
    def paused(self) -> bool:
        """Whether nothing may be done. Any value but ``false`` pauses: a misspelt one must not let things go on."""
        return self.annotations.get(f"{PREFIX}paused", "false").strip().lower() != "false"

    @property
    def adopting(self) -> bool:
        """Whether a schema that payrec did not make may be taken over. Only ``true`` says so."""
        return self.annotations.get(f"{PREFIX}adopt") == "true"

    @property
    def abandoned(self) -> bool:
        """Whether a deletion shall be over, whatever is left. Only ``true`` says so."""
        return self.annotations.get(f"{PREFIX}abandon") == "true"

    @property
    def drops(self) -> bool:
        """Whether deleting the resource deletes the data. A spec that is wrong elsewhere counts; a wrong policy not."""
        return self.raw_spec.get("deletionPolicy") == "Delete"

    def rotation_requests(self, key: str) -> tuple[str, ...]:
        """Return the values of the annotations that ask for a new key: for all keys, and for this one."""
        values = (self.annotations.get(f"{PREFIX}rotate"), self.annotations.get(f"{PREFIX}rotate.{key}"))
        return tuple(value[:REQUEST_LENGTH_MAX] for value in values if value)

    def with_unheard(self, message: str) -> str:
        """Return a message, and after it what our annotations ask of nobody: nothing else would tell of a typo."""
        keys, told = by_name(self.raw_spec.get("apiKeys")), [message]
        for annotation, value in sorted(self.annotations.items()):
            verb, _, key = annotation.removeprefix(PREFIX).partition(".")
            if not annotation.startswith(PREFIX):
                continue
            if verb == "rotate":
                if key not in keys and annotation != f"{PREFIX}rotate":
                    told.append(f"annotation {annotation} names no key of spec.apiKeys")
            elif key or verb not in VERBS:
                told.append(f"annotation {annotation} is none of {', '.join(VERBS)}, rotate.<key>")
            elif verb in ("adopt", "abandon") and value not in ("true", "false"):
                told.append(f'annotation {annotation} counts as "true" alone')
        return "; ".join(told)


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def instant_of(text: Any) -> datetime | None:
    """Return an instant of a status, or None where it is none."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def by_name(entries: Any) -> dict[str, dict[str, Any]]:
    """Return a list of a status by its entries' names; what is no entry is left out."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return {}
    return {e["name"]: dict(e) for e in entries if isinstance(e, Mapping) and isinstance(e.get("name"), str)}


def _unique(where: str, values: list[str]) -> None:
    if len(set(values)) != len(values):
        raise PydanticCustomError("duplicate", "{where} must be unique within the tenant", {"where": where})


def _sentence(error: ValidationError) -> str:
    """Return what is wrong, as one sentence; pydantic's texts do not repeat the input."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    told = [f"{_place(p['loc'])}: {p['msg'].removeprefix('Value error, ')}" for p in problems]
    more = len(told) - INVALID_SPEC_PROBLEMS_MAX
    return "; ".join(told[:INVALID_SPEC_PROBLEMS_MAX]) + (f"; and {more} more" if more > 0 else "") + "."


def _place(location: tuple[int | str, ...]) -> str:
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)

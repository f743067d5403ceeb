"""One pass over a resource: what was seen, what was found wrong, and what was put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from payrec.domain.tenant_resources import Observation, StoredKey
from payrec_operator.errors import NamespaceTerminatingError
from payrec_operator.ports import KeySecret, World
from payrec_operator.problems import Problem, of_credentials, of_environment, problem_of
from payrec_operator.resources import ApiKeySpec, TenantResource, TenantSpec, by_name
from payrec_operator.rotation import KeyMemory

API_KEY = "api-key"
"""Field of a Secret: the key itself."""

API_KEY_ID = "api-key-id"
"""Field of a Secret: the key's id, which opens nothing."""


@dataclass(slots=True, kw_only=True)
class KeyFinding:
    """What the pass did about one key, and what keeps it from more."""

    problem: Problem | None = None
    attempted: bool = False
    """Whether a rotation was begun and not finished."""
    rotated: bool = False
    """Whether it was finished."""
    deferred_until: datetime | None = None
    """When the overlap ends for which a rotation waits."""
    waiting_until: datetime | None = None
    """When a rotation that failed is tried again."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """A pass. Nothing in it outlives it; what does is in the status."""

    resource: TenantResource
    spec: TenantSpec
    world: World
    now: datetime
    secrets: dict[str, KeySecret] | None = None
    """The Secrets that the Tenant controls, by name: the cache's at first. None where they cannot be read."""
    fresh: bool = False
    """Whether ``secrets`` is the API server's own answer of this pass."""
    changed: bool = False
    """Whether something may have been changed, so that the status needs another look."""
    tenant: Problem | None = None
    """What is wrong with name, suspension or settings."""
    users: Problem | None = None
    credentials: Problem | None = None
    """Why no key could be looked after."""
    environments: dict[str, Problem] = field(default_factory=dict)
    keys: dict[str, KeyFinding] = field(default_factory=dict)
    corrected: list[str] = field(default_factory=list)
    """Kinds of what was there once, was not as it should be, and has been put right."""
    errors: list[Exception] = field(default_factory=list)
    registered: set[str] = field(default_factory=set)
    """Environments that the tenant has now."""
    seen: Observation | None = None
    _identified: dict[str, StoredKey | None] = field(default_factory=dict, repr=False)

    @property
    def observation(self) -> Observation:
        """What was observed last."""
        assert self.seen is not None, "nothing has been observed yet"
        return self.seen

    @property
    def tenant_id(self) -> UUID:
        """The tenant of the resource."""
        return self.observation.tenant.tenant_id

    @property
    def memories(self) -> dict[str, KeyMemory]:
        """What the status remembers of each key, by name."""
        entries = by_name(self.resource.status.get("apiKeys"))
        return {name: KeyMemory.parse(entry) for name, entry in entries.items()}

    def finding(self, name: str) -> KeyFinding:
        """Return what is found about a key."""
        return self.keys.setdefault(name, KeyFinding())

    def tell_tenant(self, problem: Problem) -> None:
        """Find something wrong with name, suspension or settings, or with looking at all."""
        self.tenant = problem

    def tell_users(self, problem: Problem) -> None:
        """Find something wrong with the users."""
        self.users = problem

    def tell_credentials(self, problem: Problem) -> None:
        """Find something wrong with looking after keys."""
        self.credentials = of_credentials(problem)

    def tell_environment(self, name: str) -> Callable[[Problem], None]:
        """Return what finds something wrong with an environment."""
        return lambda problem: self.environments.update({name: of_environment(problem)})

    def tell_key(self, name: str) -> Callable[[Problem], None]:
        """Return what finds something wrong with a key."""

        def tell(problem: Problem) -> None:
            self.finding(name).problem = of_credentials(problem)

        return tell

    @contextmanager
    def guarded(self, tell: Callable[[Problem], None]) -> Iterator[None]:
        """Keep one part's error from the other parts, and tell what it means."""
        try:
            yield
        except NamespaceTerminatingError:
            raise  # nothing can be made there any more, so the whole pass ends
        except Exception as error:  # noqa: BLE001 - one part that fails must not stop the others
            self.errors.append(error)
            tell(problem_of(error))

    async def look(self) -> bool:
        """Read the Secrets, unless they are known, and observe; return whether a tenant is there."""
        if self.secrets is None and self.credentials is None:
            with self.guarded(self.tell_credentials):
                self.secrets = {s.name: s for s in await self.world.secrets.owned(self.resource.owner)}
        texts = sorted({s.data[API_KEY] for s in (self.secrets or {}).values() if API_KEY in s.data})
        seen = await self.world.registry.observe(
            self.resource.owner, wanted=self.spec.wanted, users=self.spec.wanted_users, texts=texts
        )
        if seen is not None:
            self.seen = seen
            self.registered = {e.environment for e in seen.tenant.environments}
            self._identified = dict(zip(texts, seen.held, strict=True))
        return seen is not None

    async def refresh(self) -> dict[str, KeySecret]:
        """Return the Secrets as the API server has them; once a pass, later as this pass has left them."""
        if not self.fresh or self.secrets is None:
            self.secrets = {s.name: s for s in await self.world.secrets.owned(self.resource.owner, fresh=True)}
            self.fresh = True
        return self.secrets

    async def identify(self, secret: KeySecret | None) -> StoredKey | None:
        """Return the key that a Secret holds, if it opens something."""
        text = secret.data.get(API_KEY) if secret is not None else None
        if not text:
            return None
        if text not in self._identified:
            self._identified[text] = await self.world.registry.identify(self.tenant_id, text)
        return self._identified[text]

    def known(self, secret: KeySecret | None) -> StoredKey | None:
        """Return the key that a Secret held when the world was observed."""
        return self._identified.get(secret.data.get(API_KEY, "")) if secret is not None else None

    async def write(self, name: str, data: dict[str, str], *, seen: KeySecret | None) -> None:
        """Write a Secret and keep in mind what it holds now."""
        self.changed = True
        version = await self.world.secrets.write(
            self.resource.owner, name, data, seen=seen.resource_version if seen is not None else None
        )
        self.remember(KeySecret(name=name, owned=True, resource_version=version, data=data))

    def remember(self, secret: KeySecret) -> None:
        """Keep in mind what a Secret of the Tenant holds now."""
        assert self.secrets is not None, "a Secret is written only after the others have been read"
        self.secrets[secret.name] = secret

    async def delete(self, name: str) -> None:
        """Delete a Secret of the Tenant."""
        self.changed = True
        await self.world.secrets.delete(self.resource.owner, name)
        assert self.secrets is not None, "a Secret is deleted only after it has been read"
        self.secrets.pop(name, None)

    def data(self, key: ApiKeySpec, *, key_id: UUID, text: str) -> dict[str, str]:
        """Return what the Secret of a key holds."""
        return {
            API_KEY: text,
            API_KEY_ID: str(key_id),
            "tenant-id": str(self.tenant_id),
            "environment": key.environment,
            "base-url": self.world.base_url,
        }

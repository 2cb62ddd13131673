"""Request counters and optional authorisation rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from controller.devcluster.apiserver.protocol.status import ApiError, ResourceName, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Attributes:
    """One request, in the view of authorisation.

    Attributes:
        user: the user.
        user_agent: the user's program.
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
            `deletecollection`.
        group: API group, empty for the core group.
        resource: plural name, with the subresource: `pods/log`.
        namespace: empty for cluster-wide requests.
        name: empty for collections.
        groups: groups of the user.
    """

    user: str
    user_agent: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    groups: tuple[str, ...] = ()


class RequestKey(NamedTuple):
    """The key under which requests are counted."""

    user_agent: str
    verb: str
    resource: str


class Audit:
    """Counts and authorises requests.

    Attributes:
        requests: numbers of requests by user agent, verb and resource (`pods/status`,
            `rayclusters.ray.io`).
        authorizer: decides whether a request is allowed; None allows everything.
    """

    def __init__(self) -> None:
        self.requests: Counter[RequestKey] = Counter()
        self.authorizer: Callable[[Attributes], bool] | None = None

    def admit(self, attributes: Attributes) -> None:
        """Count a request and authorise it.

        Raises:
            ApiError: 403, worded as RBAC does.
        """
        plural, slash, subresource = attributes.resource.partition("/")
        name = ResourceName(attributes.group, plural, "")
        counted = f"{name.qualified}{slash}{subresource}"
        self.requests[RequestKey(attributes.user_agent, attributes.verb, counted)] += 1
        self.check(attributes)

    def check(self, attributes: Attributes) -> None:
        """Authorise a request.

        Raises:
            ApiError: 403, worded as RBAC does.
        """
        if not self.allows(attributes):
            plural = attributes.resource.partition("/")[0]
            raise _denied(attributes, ResourceName(attributes.group, plural, ""))

    def allows(self, attributes: Attributes) -> bool:
        """Return whether a request is allowed."""
        return self.authorizer is None or self.authorizer(attributes)


def _denied(attributes: Attributes, name: ResourceName) -> ApiError:
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    return forbidden(
        name,
        attributes.name,
        f'User "{attributes.user}" cannot {attributes.verb} resource "{attributes.resource}" '
        f'in API group "{attributes.group}" {where}',
    )

"""Who may do what: request counters and rules of tests, RBAC, and access reviews."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from devcluster.apiserver.authentication import MASTERS, TokenIssuer, User, user_named
from devcluster.apiserver.messages import (
    ApiRequest,
    ResourcePath,
    content_type,
    decode_object,
)
from devcluster.apiserver.objects import Json, child, entries
from devcluster.apiserver.status import ApiError, ResourceName, forbidden
from devcluster.apiserver.store import ObjectStore


class Attributes(Struct, frozen=True):
    """One request, in the view of authorisation.

    Attributes:
        resource: plural name, with the subresource: `pods/log`.
        namespace: empty for cluster-wide requests.
        name: empty for collections.
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


class Rbac:
    """Decides whether a request is allowed."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __call__(self, attributes: Attributes) -> bool:
        """Return whether a rule allows it."""
        if MASTERS in attributes.groups:
            return True
        found = self.rules(attributes.user, attributes.groups, attributes.namespace)
        return any(_allows(rule, attributes) for rule in found)

    def rules(self, user: str, groups: tuple[str, ...], namespace: str) -> Iterator[Json]:
        """Yield the rules for a user in a namespace, or for the whole cluster if it is empty."""
        for binding in self._objects("clusterrolebindings", ""):
            if _binds(binding, user, groups):
                yield from self._rules_of(child(binding, "roleRef"), "")
        if namespace:
            for binding in self._objects("rolebindings", namespace):
                if _binds(binding, user, groups):
                    yield from self._rules_of(child(binding, "roleRef"), namespace)

    def _objects(self, plural: str, namespace: str) -> Iterator[Json]:
        table = self._store.table(f"{plural}.rbac.authorization.k8s.io")
        for key, stored in table.items.items():
            if not namespace or key.startswith(f"{namespace}/"):
                yield stored.object

    def _rules_of(self, role: Json, namespace: str) -> list[Json]:
        key, plural = str(role.get("name", "")), "clusterroles"
        if role.get("kind") == "Role":
            key, plural = f"{namespace}/{key}", "roles"
        found = self._store.table(f"{plural}.rbac.authorization.k8s.io").items.get(key)
        return entries(found.object, "rules") if found else []


def _binds(binding: Json, user: str, groups: tuple[str, ...]) -> bool:
    return any(_is_subject(subject, user, groups) for subject in entries(binding, "subjects"))


def _is_subject(subject: Json, user: str, groups: tuple[str, ...]) -> bool:
    name = str(subject.get("name", ""))
    match subject.get("kind"):
        case "ServiceAccount":
            return user == f"system:serviceaccount:{subject.get('namespace', '')}:{name}"
        case "Group":
            return name in groups
        case "User":
            return name == user
        case _:
            return False


def _allows(rule: Json, attributes: Attributes) -> bool:
    names = entries(rule, "resourceNames")
    return (
        _has(rule, "verbs", attributes.verb)
        and _has(rule, "apiGroups", attributes.group)
        and _has_resource(entries(rule, "resources"), attributes.resource)
        and (not names or attributes.name in names)
    )


def _has_resource(allowed: list[Any], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    any_of_name = f"*/{subresource}" if slash else wanted
    return bool({"*", wanted, any_of_name} & {str(one) for one in allowed})


def _has(rule: Json, name: str, wanted: str) -> bool:
    allowed = entries(rule, name)
    return wanted in allowed or "*" in allowed


_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_REVIEWS = {
    (_AUTHORIZATION, "selfsubjectaccessreviews"): "SelfSubjectAccessReview",
    (_AUTHORIZATION, "subjectaccessreviews"): "SubjectAccessReview",
    (_AUTHORIZATION, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
    (_AUTHENTICATION, "selfsubjectreviews"): "SelfSubjectReview",
    (_AUTHENTICATION, "tokenreviews"): "TokenReview",
}
_OF_OTHERS = frozenset({"SubjectAccessReview", "TokenReview"})
"""Reviews that need a right of their own."""
_EVERYTHING: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def review(
    request: ApiRequest, where: ResourcePath, audit: Audit, tokens: TokenIssuer | None
) -> Json | None:
    """Return the reviewed object, or None if the request is not a review."""
    kind = _REVIEWS.get((where.group, where.plural), "")
    if request.method != "POST" or not kind:
        return None
    user = request.user
    if kind in _OF_OTHERS:
        group, plural = where.group, where.plural
        agent = request.user_agent
        audit.check(Attributes(user.name, agent, "create", group, plural, "", "", user.groups))
    asked = decode_object(request.body, content_type(request.headers))
    spec = child(asked, "spec")
    match kind:
        case "TokenReview":
            status = _token_status(spec, tokens)
        case "SelfSubjectReview":
            status = {"userInfo": _described(user)}
        case "SelfSubjectRulesReview":
            status = _rules_status(spec, user, audit)
        case _:
            status = _access_status(spec, request, audit, is_own=kind.startswith("Self"))
    head: Json = {"kind": kind, "apiVersion": f"{where.group}/v1", "metadata": {}}
    return head | ({"spec": spec} if "spec" in asked else {}) | {"status": status}


def _described(user: User) -> Json:
    return {"username": user.name, "groups": list(user.groups)}


def _token_status(spec: Json, tokens: TokenIssuer | None) -> Json:
    """Return whose token this is: those of the administrator and of people are nobody's."""
    token = str(spec.get("token", ""))
    user = tokens.user(token) if tokens and token.isascii() else None
    if user is None:
        return {"error": "invalid bearer token"}
    return {"authenticated": True, "user": _described(user)}


def _rules_status(spec: Json, user: User, audit: Audit) -> Json:
    rules = [_EVERYTHING]
    if isinstance(audit.authorizer, Rbac) and not user.is_admin:
        namespace = str(spec.get("namespace", ""))
        rules = list(audit.authorizer.rules(user.name, user.groups, namespace))
    others = [{"verbs": ["*" if user.is_admin else "get"], "nonResourceURLs": ["*"]}]
    return {"resourceRules": rules, "nonResourceRules": others, "incomplete": False}


def _access_status(spec: Json, request: ApiRequest, audit: Audit, *, is_own: bool) -> Json:
    user = request.user
    if not is_own:
        user = user_named(str(spec.get("user", "")), *entries(spec, "groups"))
    asked = child(spec, "resourceAttributes")
    resource = "/".join(filter(None, (asked.get("resource", ""), asked.get("subresource"))))
    attributes = Attributes(
        user.name,
        request.user_agent,
        asked.get("verb", ""),
        asked.get("group", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
        user.groups,
    )
    return {"allowed": audit.allows(attributes)}

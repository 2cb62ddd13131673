"""Who may do what: request counters and rules of tests, RBAC, access reviews, and escalation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controller.devcluster.apiserver.authentication import MASTERS, user_named
from controller.devcluster.apiserver.messages import content_type, decode_object
from controller.devcluster.apiserver.objects import Json, child, encode, entries
from controller.devcluster.apiserver.status import ApiError, ResourceName, forbidden, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from controller.devcluster.apiserver.authentication import TokenIssuer, User
    from controller.devcluster.apiserver.messages import ApiRequest, ResourcePath
    from controller.devcluster.apiserver.resources import ApiResource
    from controller.devcluster.apiserver.store import ObjectStore


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
                yield from self._rules_of(binding, "")
        if namespace:
            for binding in self._objects("rolebindings", namespace):
                if _binds(binding, user, groups):
                    yield from self._rules_of(binding, namespace)

    def _objects(self, plural: str, namespace: str) -> Iterator[Json]:
        table = self._store.table(f"{plural}.rbac.authorization.k8s.io")
        for key, stored in table.items.items():
            if not namespace or key.startswith(f"{namespace}/"):
                yield stored.object

    def _rules_of(self, binding: Json, namespace: str) -> list[Json]:
        return self.rules_of_role(child(binding, "roleRef"), namespace) or []

    def rules_of_role(self, role: Json, namespace: str) -> list[Json] | None:
        """Return the rules of the role that a `roleRef` names; None if there is none."""
        key, plural = str(role.get("name", "")), "clusterroles"
        if role.get("kind") == "Role":
            key, plural = f"{namespace}/{key}", "roles"
        found = self._store.table(f"{plural}.rbac.authorization.k8s.io").items.get(key)
        return entries(found.object, "rules") if found else None


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


REVIEWS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "subjectaccessreviews": "SubjectAccessReview",
}
GROUP = "authorization.k8s.io"


_EVERYTHING: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def review(
    request: ApiRequest, where: ResourcePath, audit: Audit, tokens: TokenIssuer | None
) -> Json | None:
    """Return the reviewed object, or None if the request is not a review."""
    if (request.method, where.group, where.plural) == ("POST", _AUTHENTICATION, "tokenreviews"):
        audit.check(_own(request, where))
        return _token_review(request, tokens)
    if request.method == "POST" and (where.group, where.plural) in _WITHOUT_QUESTION:
        return _answered(request, where, audit)
    if (request.method, where.group, where.plural in REVIEWS) != ("POST", GROUP, True):
        return None
    object_ = decode_object(request.body, content_type(request.headers))
    spec: Json = child(object_, "spec")
    asked: Json = child(spec, "resourceAttributes")
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += "/" + asked["subresource"]
    if where.plural == "subjectaccessreviews":
        audit.check(_own(request, where))
        user = user_named(str(spec.get("user", "")), *entries(spec, "groups"))
    else:
        user = request.user
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
    return {
        "kind": REVIEWS[where.plural],
        "apiVersion": f"{GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": audit.allows(attributes)},
    }


def _token_review(request: ApiRequest, tokens: TokenIssuer | None) -> Json:
    """Return whose token this is: those of the administrator and of people are nobody's."""
    asked = decode_object(request.body, content_type(request.headers))
    token = str(child(asked, "spec").get("token", ""))
    user = tokens.user(token) if tokens and token.isascii() else None
    status: Json = {"error": "invalid bearer token"}
    if user is not None:
        info = {"username": user.name, "groups": list(user.groups)}
        status = {"authenticated": True, "user": info}
    return {
        "kind": "TokenReview", "apiVersion": f"{_AUTHENTICATION}/v1", "metadata": {},
        "spec": child(asked, "spec"), "status": status,
    }  # fmt: skip


_AUTHENTICATION = "authentication.k8s.io"
_WITHOUT_QUESTION = {
    (_AUTHENTICATION, "selfsubjectreviews"): "SelfSubjectReview",
    (GROUP, "selfsubjectrulesreviews"): "SelfSubjectRulesReview",
}


def _answered(request: ApiRequest, where: ResourcePath, audit: Audit) -> Json:
    """Return the user, or their rules."""
    kind = _WITHOUT_QUESTION[where.group, where.plural]
    user = request.user
    if kind == "SelfSubjectReview":
        status: Json = {"userInfo": {"username": user.name, "groups": list(user.groups)}}
    else:
        asked = decode_object(request.body, content_type(request.headers))
        namespace = str(child(asked, "spec").get("namespace", ""))
        rules = [_EVERYTHING]
        if isinstance(audit.authorizer, Rbac) and not user.is_admin:
            rules = list(audit.authorizer.rules(user.name, user.groups, namespace))
        others = [{"verbs": ["*" if user.is_admin else "get"], "nonResourceURLs": ["*"]}]
        status = {"resourceRules": rules, "nonResourceRules": others, "incomplete": False}
    return {"kind": kind, "apiVersion": f"{where.group}/v1", "metadata": {}, "status": status}


def _own(request: ApiRequest, where: ResourcePath) -> Attributes:
    """Return the review itself, as a request."""
    user = request.user
    return Attributes(
        user.name, request.user_agent, "create", where.group, where.plural, "", "", user.groups
    )


_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
_FOR_DELETION: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
_ALL_RIGHTS: Final[list[Json]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]


@dataclass(frozen=True, slots=True)
class EscalationCheck:
    """Checks what one request stores.

    Attributes:
        rbac: the roles.
        user: the user.
        namespace: in the path; empty for cluster-wide objects.
        name: in the path; empty for a new object.
    """

    rbac: Rbac
    user: User
    namespace: str
    name: str

    def __call__(self, resource: ApiResource, new: Json, old: Json | None) -> None:
        """Refuse an object that would grant what the user does not hold.

        Raises:
            ApiError: 403, it would; 404, it binds a role that does not exist.
        """
        plural = resource.table.removesuffix(f".{_RBAC}")
        if plural not in _ROLES | _BINDINGS or self.user.is_admin:
            return
        if old is not None and _without(new, _FOR_DELETION) == _without(old, _FOR_DELETION):
            return
        if plural in _ROLES:
            rules = [] if self._may("escalate", plural, self.name) else entries(new, "rules")
            aggregates = "aggregationRule" in new and not self._may("escalate", plural, self.name)
        else:
            rules, aggregates = self._bound(resource, child(new, "roleRef")), False
        name = str(new["metadata"].get("name", ""))
        if why := self._lacks(rules):
            raise forbidden(resource.name, name, why)
        if aggregates and self._lacks(_ALL_RIGHTS):
            needed = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(resource.name, name, needed)

    def _may(self, verb: str, plural: str, name: str) -> bool:
        user = self.user
        return self.rbac(
            Attributes(user.name, "", verb, _RBAC, plural, self.namespace, name, user.groups)
        )

    def _bound(self, binding: ApiResource, role: Json) -> list[Json]:
        """Return the rules that a binding grants and that the user must hold."""
        plural = "roles" if role.get("kind") == "Role" else "clusterroles"
        name = str(role.get("name", ""))
        if self._may("bind", plural, name):
            return []
        rules = self.rbac.rules_of_role(role, self.namespace)
        if rules is None:
            raise not_found(binding.name, name)  # upstream, too, calls the role a binding
        return rules

    def _lacks(self, rules: Iterable[Json]) -> str:
        """Return a sentence about what the user does not hold; empty if nothing."""
        user = self.user
        held = list(self.rbac.rules(user.name, user.groups, self.namespace))
        missing = [
            part
            for rule in rules
            for part in _parts(rule)
            if not any(_covers(each, part) for each in held)
        ]
        if not missing:
            return ""
        shown = "\n".join(sorted({encode(part).decode() for part in missing}))
        why = "is attempting to grant RBAC permissions not currently held"
        return f'user "{user.name}" {why}:\n{shown}'


def _without(object_: Json, fields: Iterable[str]) -> Json:
    metadata = {name: value for name, value in object_["metadata"].items() if name not in fields}
    return {**object_, "metadata": metadata}


def _parts(rule: Json) -> Iterator[dict[str, str]]:
    """Yield the rule in pieces of one verb for one resource and name, or for one URL."""
    names = [{"resourceNames": str(name)} for name in entries(rule, "resourceNames")] or [{}]
    for group, resource, verb, name in product(
        entries(rule, "apiGroups"), entries(rule, "resources"), entries(rule, "verbs"), names
    ):
        yield {"apiGroups": group, "resources": resource, "verbs": verb, **name}
    for url, verb in product(entries(rule, "nonResourceURLs"), entries(rule, "verbs")):
        yield {"nonResourceURLs": url, "verbs": verb}


def _covers(rule: Json, part: Mapping[str, str]) -> bool:
    if not {"*", part["verbs"]} & set(entries(rule, "verbs")):
        return False
    if url := part.get("nonResourceURLs"):
        return any(_covers_url(each, url) for each in entries(rule, "nonResourceURLs"))
    names, (_, slash, subresource) = (
        entries(rule, "resourceNames"),
        part["resources"].partition("/"),
    )
    resources = {"*", part["resources"], *([f"*/{subresource}"] if slash else [])}
    return (
        bool({"*", part["apiGroups"]} & set(entries(rule, "apiGroups")))
        and bool(resources & set(entries(rule, "resources")))
        and (not names or part.get("resourceNames") in names)
    )


def _covers_url(held: str, wanted: str) -> bool:
    return held in {"*", wanted} or (held.endswith("*") and wanted.startswith(held.rstrip("*")))

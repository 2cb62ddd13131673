"""Role-based access control: the roles in the store decide what users may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.access.users import MASTERS
from controller.devcluster.apiserver.jsondata import child, entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.devcluster.apiserver.access.audit import Attributes
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.storage.store import ObjectStore


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

"""Checks that a role or binding grants only what its author holds, before it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from controller.devcluster.apiserver.authorization import Attributes
from controller.devcluster.apiserver.objects import child, encode, entries
from controller.devcluster.apiserver.status import forbidden, not_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controller.devcluster.apiserver.authentication import User
    from controller.devcluster.apiserver.authorization import Rbac
    from controller.devcluster.apiserver.objects import Json
    from controller.devcluster.apiserver.resources import ApiResource


GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = frozenset({"roles", "clusterroles"})
_BINDINGS: Final = frozenset({"rolebindings", "clusterrolebindings"})
_FOR_DELETION: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
_EVERYTHING: Final[list[Json]] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_SHOWN: Final = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


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
        plural = resource.table.removesuffix(f".{GROUP}")
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
        if aggregates and self._lacks(_EVERYTHING):
            needed = "must have cluster-admin privileges to use the aggregationRule"
            raise forbidden(resource.name, name, needed)

    def _may(self, verb: str, plural: str, name: str) -> bool:
        user = self.user
        return self.rbac(
            Attributes(user.name, "", verb, GROUP, plural, self.namespace, name, user.groups)
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
        groups = " ".join(map(_quoted, user.groups))
        shown = "\n".join(sorted(set(map(_shown, _compacted(missing)))))
        return (
            f"user {_quoted(user.name)} (groups=[{groups}]) is attempting to grant RBAC "
            f"permissions not currently held:\n{shown}"
        )


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


def _compacted(parts: Iterable[dict[str, str]]) -> list[dict[str, list[str]]]:
    """Merge the pieces for the same resource into one rule with all their verbs."""
    found: dict[Any, dict[str, list[str]]] = {}
    for number, part in enumerate(parts):
        fields = {name: [value] for name, value in part.items()}
        others = tuple((name, value) for name, value in part.items() if name != "verbs")
        key = number if "nonResourceURLs" in part else others
        if key in found:
            found[key]["verbs"].append(part["verbs"])
        else:
            found[key] = fields
    return list(found.values())


def _shown(rule: Mapping[str, list[str]]) -> str:
    fields = (
        f"{shown}:[{' '.join(map(_quoted, rule[name]))}]"
        for name, shown in _SHOWN.items()
        if rule.get(name)
    )
    return f"{{{', '.join(fields)}}}"


def _quoted(text: str) -> str:
    return encode(text).decode()

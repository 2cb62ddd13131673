"""Kinds with defaults and little special behaviour, among them namespaces and events."""

from __future__ import annotations

import base64
import re

from devcluster.apiserver.objects import Json, child, entries, is_label
from devcluster.apiserver.resources import Strategy
from devcluster.apiserver.status import (
    StatusCause,
    forbidden_field,
    invalid_value,
)

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
}
_BACK = {core: name for name, core in _RENAMED.items()}


def to_stored_event(event: Json) -> Json:
    """Convert from `events.k8s.io/v1` to `v1`, in which events are stored."""
    stored = {_RENAMED.get(name, name): value for name, value in event.items()}
    stored["apiVersion"] = "v1"
    return stored


def from_stored_event(event: Json) -> Json:
    """Convert from `v1` to `events.k8s.io/v1`."""
    shown = {_BACK.get(name, name): value for name, value in event.items()}
    shown["apiVersion"] = "events.k8s.io/v1"
    return shown


class NamespaceStrategy(Strategy):
    """A namespace is removed when neither its spec nor its metadata has finalizers."""

    has_status = True
    returns_deleted = True
    name_rule = staticmethod(is_label)

    def default(self, object_: Json) -> None:
        """Set the label with the namespace's own name."""
        name = object_["metadata"].get("name")
        if name:
            labels = object_["metadata"].setdefault("labels", {})
            labels.setdefault("kubernetes.io/metadata.name", name)

    def prepare_create(self, object_: Json) -> None:
        """Set the phase Active and the namespace controller's finalizer."""
        spec: Json = object_.setdefault("spec", {})
        finalizers: list[str] = spec.setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        object_["status"] = {"phase": "Active"}

    def prepare_update(self, new: Json, old: Json) -> None:
        """Keep the spec's finalizers, which only the finalize subresource changes."""
        super().prepare_update(new, old)
        new["spec"] = child(old, "spec")

    def can_be_removed(self, object_: Json) -> bool:
        """Require that the spec has no finalizers either."""
        return super().can_be_removed(object_) and not object_["spec"].get("finalizers")

    def begin_deletion(self, object_: Json, deadline: str, grace: int) -> None:  # noqa: ARG002
        """Set the phase Terminating."""
        object_["metadata"]["deletionTimestamp"] = deadline
        object_["status"]["phase"] = "Terminating"


CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class NodeStrategy(Strategy):
    """Nodes, which the kubelet creates with a status."""

    has_status = True

    def prepare_create(self, object_: Json) -> None:
        """Keep the status."""


class ConfigMapStrategy(Strategy):
    """Config maps, whose keys become file names."""

    def validate(self, object_: Json, old: Json | None) -> list[StatusCause]:
        """Validate metadata and keys."""
        causes = super().validate(object_, old) + [
            invalid_value(f"{field}[{key}]", key, problem)
            for field in ("data", "binaryData")
            for key in child(object_, field)
            for problem in _key_problems(key)
        ]
        causes += [
            invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
            for key in child(object_, "data")
            if key in child(object_, "binaryData")
        ]
        return (_thawed(object_, old) if old and old.get("immutable") else []) + causes


def _key_problems(key: str) -> list[str]:
    problems = [] if _CONFIG_KEY.fullmatch(key) else [CONFIG_KEY_RULE]
    if key in {".", ".."}:
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def _thawed(new: Json, old: Json) -> list[StatusCause]:
    causes: list[StatusCause] = []
    if not new.get("immutable"):
        causes.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    causes += [
        forbidden_field(field, "field is immutable when `immutable` is set")
        for field in ("data", "binaryData")
        if child(new, field) != child(old, field)
    ]
    return causes


class SecretStrategy(ConfigMapStrategy):
    """Secrets, which also accept data as plain text."""

    def default(self, object_: Json) -> None:
        """Encode plain text, and fill in the type."""
        plain = object_.pop("stringData", {})
        encoded = {key: base64.b64encode(plain[key].encode()).decode() for key in plain}
        if encoded:
            object_["data"] = child(object_, "data") | encoded
        object_.setdefault("type", "Opaque")


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    has_status = True
    returns_deleted = True

    def prepare_create(self, object_: Json) -> None:
        """Set the phase Pending."""
        object_["status"] = {"phase": "Pending"}

    def default(self, object_: Json) -> None:
        """Default to a file system."""
        object_.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


class NetworkPolicyStrategy(Strategy):
    """Network policies."""

    counts_generations = True

    def default(self, object_: Json) -> None:
        """Default to ingress always, and egress if there are rules; ports to TCP."""
        spec: Json = object_.setdefault("spec", {})
        types = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        spec.setdefault("policyTypes", types)
        for rule in (*entries(spec, "ingress"), *entries(spec, "egress")):
            for port in entries(rule, "ports"):
                port.setdefault("protocol", "TCP")


class EndpointSliceStrategy(Strategy):
    """Endpoint slices."""

    counts_generations = True

    def default(self, object_: Json) -> None:
        """Default ports to TCP."""
        for port in entries(object_, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

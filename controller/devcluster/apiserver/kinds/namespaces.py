"""Namespaces: the `kubernetes` finalizer and the terminating phase."""

from __future__ import annotations

from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.meta import is_label
from controller.devcluster.apiserver.resources.strategy import Strategy


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

"""What is read of nodes and of Karpenter's objects, whose CRDs may be absent.

Each provider of Karpenter has a kind of NodeClasses of its own: group, version and names are
settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from controller.kaito.api import labels
from controller.kaito.api.labels import subdomain_problem
from controller.kube.objects import Condition, KubeObject, ObjectMeta, View
from controller.kube.resources import Resource
from controller.runtime.kind import Owned

V = TypeVar("V", bound=KubeObject)


class ConditionsStatus(View, frozen=True):
    """`status`, of which the conditions are read."""

    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.conditions if each.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Return whether the condition of that type is True."""
        found = self.condition(type_)
        return found is not None and found.status == "True"


class NodeCapacity(View, frozen=True):
    """`status.capacity`, of which only the GPUs count."""

    gpus: str | int = msgspec.field(default=0, name="nvidia.com/gpu")


class NodeStatus(ConditionsStatus, frozen=True):
    """`status` of a Node."""

    capacity: NodeCapacity = NodeCapacity()


class GpuNode(KubeObject, frozen=True):
    """A Node, cluster-scoped."""

    status: NodeStatus = NodeStatus()


NODES: Final = Resource("", "v1", "nodes", "Node", GpuNode, namespaced=False)


class NodeClaimStatus(ConditionsStatus, frozen=True):
    """`status` of a NodeClaim."""

    node_name: str = ""


class NodeClaim(KubeObject, frozen=True):
    """A NodeClaim, cluster-scoped."""

    status: NodeClaimStatus = NodeClaimStatus()


NODE_CLAIMS: Final = Resource(
    "karpenter.sh", "v1", "nodeclaims", "NodeClaim", NodeClaim, namespaced=False
)
POOL_CLAIMS: Final = replace(NODE_CLAIMS, part="node pools")
"""Claims that Karpenter makes for NodePools; they lack the label of the others."""


class PoolRequirement(View, frozen=True):
    """`spec.template.spec.requirements[]`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class PoolNodeSpec(View, frozen=True):
    """`spec.template.spec`."""

    requirements: tuple[PoolRequirement, ...] = ()


class PoolTemplate(View, frozen=True):
    """`spec.template`, from which NodeClaims are made."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PoolNodeSpec = PoolNodeSpec()


class PoolBudget(View, frozen=True):
    """`spec.disruption.budgets[]`."""

    nodes: str = ""
    reasons: tuple[str, ...] = ()


class PoolDisruption(View, frozen=True):
    """`spec.disruption`."""

    budgets: tuple[PoolBudget, ...] = ()


class NodePoolSpec(View, frozen=True):
    """`spec` of a NodePool.

    Attributes:
        replicas: number of nodes of a static pool; None for one that follows pending pods.
    """

    replicas: int | None = None
    template: PoolTemplate = PoolTemplate()
    disruption: PoolDisruption = PoolDisruption()


class NodePool(KubeObject, frozen=True):
    """A NodePool, cluster-scoped."""

    spec: NodePoolSpec = NodePoolSpec()
    status: ConditionsStatus = ConditionsStatus()


NODE_POOLS: Final = Resource(
    "karpenter.sh", "v1", "nodepools", "NodePool", NodePool, namespaced=False
)


def labelled(
    resource: Resource[V],
    index: str,
    keys: Callable[[KubeObject], tuple[str, ...]],
    selector: str = "",
    *,
    optional: bool = True,
) -> Owned[V]:
    """Return the watch of cluster-scoped objects whose labels name what they belong to."""
    indexes = {index: keys}
    return Owned(
        resource,
        label_selector=selector,
        indexes=indexes,
        also_enqueues=keys,
        optional=optional,
    )


_CLASSES: Final = "KARPENTER_NODE_CLASSES"


class NodeClass(KubeObject, frozen=True):
    """A NodeClass, cluster-scoped."""

    status: ConditionsStatus = ConditionsStatus()


class ConfiguredNodeClass(msgspec.Struct, frozen=True):
    """A NodeClass that Workspaces may use.

    Attributes:
        default: whether Workspaces that name no NodeClass use this one.
        spec: specification to create it with if it does not exist; None if others create it.
    """

    name: str
    default: bool = False
    spec: dict[str, Any] | None = None


@dataclass(frozen=True)
class NodeClassSettings:
    """The NodeClasses of the cluster's provider. The defaults are Azure's."""

    group: str = "karpenter.azure.com"
    version: str = "v1beta1"
    kind: str = "AKSNodeClass"
    plural: str = "aksnodeclasses"
    classes: tuple[ConfiguredNodeClass, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> NodeClassSettings:
        """Read the variables that are named after Kaito's flags.

        Raises:
            ValueError: the list of classes cannot be used; the message names the variable.
        """
        default = cls()
        return cls(
            environment.get("KARPENTER_NODE_CLASS_GROUP") or default.group,
            environment.get("KARPENTER_NODE_CLASS_VERSION") or default.version,
            environment.get("KARPENTER_NODE_CLASS_KIND") or default.kind,
            environment.get("KARPENTER_NODE_CLASS_RESOURCE_NAME") or default.plural,
            _parse_classes(environment.get("KARPENTER_NODE_CLASSES") or ""),
        )

    @cached_property
    def resource(self) -> Resource[NodeClass]:
        """The resource."""
        return Resource(
            self.group, self.version, self.plural, self.kind, NodeClass, namespaced=False
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the annotation of a Workspace may have."""
        return tuple(each.name for each in self.classes)

    def chosen_name(self, annotations: Mapping[str, str]) -> str:
        """Return the name of a Workspace's class by its annotations; empty without a default."""
        default = (each.name for each in self.classes if each.default)
        return annotations.get(labels.NODE_CLASS_NAME) or next(default, "")

    def body(self, name: str) -> dict[str, Any] | None:
        """Return the object to create under a name; None if no specification is configured."""
        found = next((each for each in self.classes if each.name == name), None)
        if found is None or found.spec is None:
            return None
        marks = {labels.POOL_MANAGED_BY: labels.POOL_MANAGER}
        if found.default:
            marks[labels.DEFAULT_NODE_CLASS] = "true"
        return {
            "apiVersion": f"{self.group}/{self.version}",
            "kind": self.kind,
            "metadata": {"name": name, "labels": marks},
            "spec": found.spec,
        }


def _parse_classes(text: str) -> tuple[ConfiguredNodeClass, ...]:
    if not text:
        return ()
    try:
        classes = msgspec.json.decode(text, type=tuple[ConfiguredNodeClass, ...])
    except msgspec.DecodeError as error:
        raise ValueError(f"{_CLASSES} is no JSON array of NodeClasses: {error}") from None
    for problem in _problems(classes):
        raise ValueError(f"{_CLASSES} {problem}")
    return tuple(sorted(classes, key=lambda each: each.name))


def _problems(classes: tuple[ConfiguredNodeClass, ...]) -> Iterator[str]:
    names: set[str] = set()
    for number, each in enumerate(classes):
        problem = "has no name" if not each.name else subdomain_problem(each.name)
        if problem:
            yield f"entry {number} {each.name!r}: {problem}"
        if each.name in names:
            yield f"declares {each.name!r} more than once"
        names.add(each.name)
    defaults = [each.name for each in classes if each.default]
    if len(defaults) != 1:
        yield f"must mark exactly one entry as default, and marks {len(defaults)}"

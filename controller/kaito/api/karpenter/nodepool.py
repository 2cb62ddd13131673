"""NodePool of Karpenter: what is read of it. Its CRD may be absent."""

from __future__ import annotations

from typing import Final

from controller.kube.objects import Condition, KubeObject, View
from controller.kube.resources import Resource


class PoolRequirement(View, frozen=True):
    """`spec.template.spec.requirements[]`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class PoolNodeSpec(View, frozen=True):
    """`spec.template.spec`."""

    requirements: tuple[PoolRequirement, ...] = ()


class PoolTemplateMeta(View, frozen=True):
    """`spec.template.metadata`."""

    labels: dict[str, str] | None = None


class PoolTemplate(View, frozen=True):
    """`spec.template`, from which NodeClaims are made."""

    metadata: PoolTemplateMeta = PoolTemplateMeta()
    spec: PoolNodeSpec = PoolNodeSpec()


class NodePoolSpec(View, frozen=True):
    """`spec` of a NodePool.

    Attributes:
        replicas: number of nodes of a static pool; None for one that follows pending pods.
        template: template of its NodeClaims.
    """

    replicas: int | None = None
    template: PoolTemplate = PoolTemplate()


class NodePoolStatus(View, frozen=True):
    """`status` of a NodePool."""

    conditions: tuple[Condition, ...] = ()


class NodePool(KubeObject, frozen=True):
    """A NodePool, cluster-scoped."""

    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


NODE_POOLS: Final = Resource(
    "karpenter.sh", "v1", "nodepools", "NodePool", NodePool, namespaced=False
)

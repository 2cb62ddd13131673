"""Karpenter's part for static NodePools: it turns their replicas into NodeClaims.

It does what Karpenter does and no more: claims that are deleted are replaced, a pool that grows
gets more, and those of a pool that is gone are deleted.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.schema import SchemaTable, definition, read_schemas, served_version
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_POOLS, NodeClass, NodeClassSettings, NodePool
from controller.kube.errors import KubeError, NotFound
from controller.kube.resources import Resource
from devcluster.karpenter import NODE_CLAIMS, ProvisionedClaim
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    delete_seen,
)

_AGAIN = 10.0
"""Seconds after a request that failed."""

_READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}


class SimulatedPools(LoopComponent[str]):
    """Gives pools their claims."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__("node-pools", context)
        self._client = context.client
        self._names = random.Random(7)
        pools = context.caches.informer(NODE_POOLS)
        self._pools = pools.lister
        pools.add_handler(
            Enqueue[NodePool, str](self._loop.add, lambda pool: (pool.metadata.name,)),
            name="node-pools",
        )
        context.caches.informer(NODE_CLAIMS).add_handler(
            Enqueue[ProvisionedClaim, str](self._loop.add, _pool_of), name="node-pools"
        )

    async def _sync(self, key: str, /) -> float | None:
        """Try again later where no claims are served, as Karpenter does."""
        try:
            await self._follow(key)
        except KubeError:
            return _AGAIN
        return None

    async def _follow(self, key: str) -> None:
        pool = self._pools.get(key)
        selector = f"{labels.NODE_POOL}={key}"
        found = (await self._client.list(NODE_CLAIMS, "", label_selector=selector)).items
        living = [each for each in found if not each.metadata.terminating]
        if pool is None or pool.metadata.terminating:
            for claim in living:
                await delete_seen(self._client, NODE_CLAIMS, claim)
            return
        for _ in range((pool.spec.replicas or 0) - len(living)):
            await self._create(key)

    async def _create(self, name: str) -> None:
        raw = await self._client.get_raw(NODE_POOLS, "", name)
        template = raw["spec"]["template"]
        own_labels = {**template["metadata"]["labels"], labels.NODE_POOL: name}
        body = {
            "apiVersion": NODE_CLAIMS.api_version,
            "kind": NODE_CLAIMS.kind,
            "metadata": {
                "name": f"{name}-{self._names.randrange(16**5):05x}",
                "labels": own_labels,
            },
            "spec": template["spec"],
        }
        await self._client.create(NODE_CLAIMS, "", body)


class SimulatedProvider(LoopComponent[str]):
    """Makes NodeClasses ready after a while."""

    def __init__(
        self, context: ComponentContext, resource: Resource[NodeClass], ready_after: float = 1.0
    ) -> None:
        super().__init__("node-classes", context)
        self._client, self._clock, self._wall = context.client, context.clock, context.wall
        self._resource, self._ready_after = resource, ready_after
        self._since: dict[str, float] = {}
        informer = context.caches.informer(resource)
        self._classes = informer.lister
        informer.add_handler(
            Enqueue[Any, str](self._loop.add, lambda each: (each.metadata.name,)),
            name="node-classes",
        )

    async def _sync(self, key: str, /) -> float | None:
        found = self._classes.get(key)
        if found is None or found.status.condition("Ready") is not None:
            return None
        left = self._since.setdefault(key, self._clock.time()) + self._ready_after
        if left > self._clock.time():
            return left - self._clock.time()
        with suppress(NotFound):
            ready = {**_READY, "lastTransitionTime": rfc3339(self._wall())}
            patch = {"status": {"conditions": [ready]}}
            await self._client.merge_patch(self._resource, "", key, patch, subresource="status")
        return None


def _pool_of(claim: ProvisionedClaim) -> tuple[str, ...]:
    name = (claim.metadata.labels or {}).get(labels.NODE_POOL, "")
    return (name,) if name else ()


_SCHEMAS = SchemaTable("""\
pool_spec: struct | The nodes.
  template!: struct | The claims.
    metadata: struct | Labels of the nodes.
      labels: strings | Labels.
    spec!: struct | The nodes.
      expireAfter: string default=720h | Age at which a node is replaced.
      nodeClassRef!: anything | The class of the nodes.
      requirements!: list | Labels that they must have.
        -: struct | A label that nodes must have.
          key!: string | Its key.
          operator!: string | Operator.
          values: words | Values.
      taints: list | Taints.
        -: anything | A taint.
  disruption: anything | When nodes are replaced.
  replicas: int64 minimum=0 | Number of nodes.

class_spec: anything | The machines.

object(spec): struct | Karpenter's.
  apiVersion: string | Version of the schema.
  kind: string | Kind of the object.
  metadata: struct
  spec: {spec}
  status: struct | What has become of it.
    conditions: anything
""")


def node_pool_definition(*, is_static: bool = True) -> dict[str, Any]:
    """The definition of NodePools; an old one has no `replicas`."""
    schema = _SCHEMAS.schema("object", "pool_spec")
    if not is_static:
        del schema["properties"]["spec"]["properties"]["replicas"]
    return _cluster_wide("karpenter.sh", "v1", "NodePool", schema, "")


def node_class_definition(classes: NodeClassSettings) -> dict[str, Any]:
    """The definition of a provider's NodeClasses, of whose specification nothing is known."""
    schema = _SCHEMAS.schema("object", "class_spec")
    return _cluster_wide(classes.group, classes.version, classes.kind, schema, classes.plural)


def _cluster_wide(
    group: str, version: str, kind: str, schema: dict[str, Any], plural: str
) -> dict[str, Any]:
    conditions = read_schemas().schema("conditions", "the object")
    schema["properties"]["status"]["properties"]["conditions"] = conditions
    served = served_version(version, schema, (), is_stored=True)
    found = definition(group, kind, served, category="karpenter")
    found["spec"]["scope"] = "Cluster"
    if plural:
        found["spec"]["names"]["plural"] = plural
        found["metadata"]["name"] = f"{plural}.{group}"
    return found

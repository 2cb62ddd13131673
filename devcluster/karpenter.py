"""Karpenter in the embedded cluster: the definition of NodeClaims, and a simulated provisioner."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

import yaml
from msgspec import Struct

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.schema import add_conditions
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.objects import Condition, KubeObject, View
from controller.kube.resources import NODES, Resource
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    delete_seen,
)
from devcluster.nodes.pods import PODS


class ClaimBehaviour(Struct, frozen=True, kw_only=True):
    """The fate of a claim. All times are in seconds from its creation.

    Attributes:
        node_after: time until its node is ready.
        plugin_after: time from then until the node offers its GPUs; None for never.
        gpus: number of GPUs that it offers then.
        stock_out: whether there is no such machine: the claim says so instead of getting a node.
        gives_up_after: time from then until the provisioner deletes the claim; None for never.
        lost_after: time from its creation until the machine is lost with its claim; None for never.
        gone_after: time from its deletion until claim and node are gone.
    """

    node_after: float = 5.0
    plugin_after: float | None = 2.0
    gpus: int = 1
    stock_out: bool = False
    gives_up_after: float | None = None
    lost_after: float | None = None
    gone_after: float = 3.0


GROUP = "karpenter.sh"


@cache
def node_claim_definition() -> dict[str, Any]:
    """Return the definition, ready to be created."""
    text = resources.files("devcluster").joinpath("node_claims.yaml").read_text("utf-8")
    definition: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    add_conditions(definition)
    return definition


class ClaimRequirement(View, frozen=True):
    """`spec.requirements[]`: a label that the node must have."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeClaimSpec(View, frozen=True):
    """`spec` of a NodeClaim."""

    requirements: tuple[ClaimRequirement, ...] = ()
    taints: tuple[dict[str, str], ...] = ()


class NodeClaimStatus(View, frozen=True):
    """`status` of a NodeClaim."""

    node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class ProvisionedClaim(KubeObject, frozen=True):
    """A NodeClaim."""

    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels of its node: its own, and each requirement that leaves no choice."""
        required = {
            each.key: each.values[0]
            for each in self.spec.requirements
            if each.operator == "In" and len(each.values) == 1
        }
        return {**(self.metadata.labels or {}), **required}


NODE_CLAIMS = Resource(GROUP, "v1", "nodeclaims", "NodeClaim", ProvisionedClaim, namespaced=False)


FINALIZER: Final = "karpenter.sh/termination"
_STOCK_OUT: Final = "InsufficientCapacity"
_STAGES: Final = ("Launched", "Registered", "Initialized", "Ready")
_INSTANT: Final = 1e-3  # seconds; to wait for less than rounding errors would never end
_GPUS: Final = "nvidia.com/gpu"


ClaimFates: TypeAlias = Callable[[ProvisionedClaim], ClaimBehaviour]
"""Returns the fate of a claim; always the same for one claim."""


def node_name(claim: str) -> str:
    """Return the name of the node of a claim."""
    return f"{claim}-node"


class SimulatedProvisioner(LoopComponent[str]):
    """Gives claims their nodes, or fails to."""

    def __init__(self, context: ComponentContext, behaviour: ClaimFates) -> None:
        super().__init__("provisioner", context)
        self._client = context.client
        self._clock = context.clock
        self._wall = context.wall
        self._behaviour = behaviour
        self._since: dict[str, float] = {}
        self._deleted: dict[str, float] = {}
        self._pods = context.caches.informer(PODS).lister
        informer = context.caches.informer(NODE_CLAIMS)
        self._claims = informer.lister
        informer.add_handler(
            Enqueue[ProvisionedClaim, str](self._loop.add, lambda claim: (claim.metadata.name,)),
            name="provisioner",
        )

    async def _sync(self, key: str, /) -> float | None:
        claim = self._claims.get(key)
        if claim is None:
            await self._remove_node(key)
            return None
        uid, now = claim.metadata.uid, self._clock.time()
        behaviour = self._behaviour(claim)
        if claim.metadata.terminating:
            left = self._deleted.setdefault(uid, now) + behaviour.gone_after - now
            return _at_least(left) if left > 0 else await self._finish(claim)
        if FINALIZER not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, FINALIZER]
            await self._patch(claim, {"metadata": {"finalizers": finalizers}})
        age = now - self._since.setdefault(uid, now)
        return await self._advance(claim, behaviour, age)

    async def _advance(
        self, claim: ProvisionedClaim, behaviour: ClaimBehaviour, age: float
    ) -> float | None:
        """Do what is due at that age; return the seconds until the next step."""
        if age < behaviour.node_after:
            await self._report(claim, "Unknown", "AwaitingReconciliation", "waiting for a machine")
            return _at_least(behaviour.node_after - age)
        if behaviour.stock_out:
            message = "all requested instance types were unavailable during launch"
            await self._report(claim, "False", _STOCK_OUT, message)
            return await self._delete_after(claim, behaviour.gives_up_after, age)
        await self._create_node(claim)
        await self._report(claim, "True", "Ready", "")
        if behaviour.plugin_after is not None:
            left = behaviour.node_after + behaviour.plugin_after - age
            if left > 0:
                return _at_least(left)
            await self._offer_gpus(claim, behaviour.gpus)
        return await self._delete_after(claim, behaviour.lost_after, age)

    async def _delete_after(
        self, claim: ProvisionedClaim, limit: float | None, age: float
    ) -> float | None:
        if limit is None:
            return None
        if age < limit:
            return _at_least(limit - age)
        with suppress(NotFound):
            await self._client.delete(NODE_CLAIMS, "", claim.metadata.name, uid=claim.metadata.uid)
        return None

    async def _finish(self, claim: ProvisionedClaim) -> None:
        await self._remove_node(claim.metadata.name)
        finalizers = [each for each in claim.metadata.finalizers if each != FINALIZER]
        if len(finalizers) < len(claim.metadata.finalizers):
            await self._patch(claim, {"metadata": {"finalizers": finalizers}})
        self._since.pop(claim.metadata.uid, None)
        self._deleted.pop(claim.metadata.uid, None)

    async def _report(
        self, claim: ProvisionedClaim, status: str, reason: str, message: str
    ) -> None:
        """Report the first stage that is not reached, or that all are; nothing is taken back."""
        stages = _STAGES if status == "True" else _STAGES[:1]
        present = claim.condition(stages[-1])
        if present is not None and (present.status in {status, "True"}):
            return
        now = rfc3339(self._wall())
        entry = {"status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        wanted: dict[str, Any] = {"conditions": [{"type": each, **entry} for each in stages]}
        if status == "True":
            wanted["nodeName"] = node_name(claim.metadata.name)
            wanted["providerID"] = f"sim:///{claim.metadata.name}"
        await self._patch(claim, {"status": wanted}, subresource="status")

    async def _create_node(self, claim: ProvisionedClaim) -> None:
        name, now = node_name(claim.metadata.name), rfc3339(self._wall())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the simulation runs",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        body = {
            "apiVersion": NODES.api_version,
            "kind": NODES.kind,
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **claim.node_labels},
            },
            "spec": {"taints": list(claim.spec.taints)},
            "status": {"capacity": {"pods": "110"}, "conditions": [ready]},
        }
        with suppress(AlreadyExists):
            await self._client.create(NODES, "", body)

    async def _offer_gpus(self, claim: ProvisionedClaim, gpus: int) -> None:
        capacity = {_GPUS: str(gpus)}
        await self._client.merge_patch(
            NODES,
            "",
            node_name(claim.metadata.name),
            {"status": {"capacity": capacity, "allocatable": capacity}},
            subresource="status",
        )

    async def _remove_node(self, claim: str) -> None:
        """Delete the node, and then its pods without grace, as nothing runs them any more.

        A node that is drained is held by Karpenter's finalizer, so that watches show it terminating
        before it is gone.
        """
        name = node_name(claim)
        with suppress(NotFound):
            await self._client.merge_patch(NODES, "", name, _held_by([FINALIZER]))
            await self._client.delete(NODES, "", name)
            await self._client.merge_patch(NODES, "", name, _held_by([]))
        for pod in self._pods.list():
            if pod.spec.node_name == name:
                await delete_seen(self._client, PODS, pod, grace_seconds=0)

    async def _patch(
        self, claim: ProvisionedClaim, patch: dict[str, Any], *, subresource: str = ""
    ) -> None:
        with suppress(NotFound):
            await self._client.merge_patch(
                NODE_CLAIMS, "", claim.metadata.name, patch, subresource=subresource
            )


def _held_by(finalizers: list[str]) -> dict[str, Any]:
    return {"metadata": {"finalizers": finalizers}}


def _at_least(seconds: float) -> float:
    return max(seconds, _INSTANT)

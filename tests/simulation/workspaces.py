"""Everything about Workspaces in one life: their cloud, their user, their referee, and what is
wrong at the end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.errors import KubeError
from devcluster.apiserver.store import StoredEvent
from devcluster.karpenter import ClaimBehaviour, ProvisionedClaim
from tests.integration.harness import World
from tests.integration.workspaces import Cloud, Workspaces, served
from tests.simulation.scenario import (
    ClaimFate,
    CreateWorkspace,
    DeleteWorkspace,
    LoseClaim,
    WorkspaceAction,
)
from tests.simulation.workspace_referee import WorkspaceReferee, owner_uid

Object = dict[str, Any]

NAMES = ("m", "n")
TERMS: Object = {
    "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"},
    "requirements": [],
}
FOREIGN: Mapping[str, Mapping[str, str]] = {
    "somebodys": {},
    "of-another-namespace": {labels.WORKSPACE: NAMES[0], labels.WORKSPACE_NAMESPACE: "elsewhere"},
}
"""Labels of claims that are none of these Workspaces', by name."""


@dataclass
class FatefulCloud(Cloud):
    """A cloud that says which claims it may delete.

    Attributes:
        lost: their names.
    """

    lost: set[str] = field(default_factory=set[str])

    def __call__(self, claim: ProvisionedClaim) -> ClaimBehaviour:
        behaviour = super().__call__(claim)
        if behaviour.lost_after is not None or behaviour.gives_up_after is not None:
            self.lost.add(claim.metadata.name)
        return behaviour


class WorkspacesOfLife:
    """The Workspaces of a world, and the cloud from which they have their nodes."""

    def __init__(self, world: World, violations: list[str]) -> None:
        self._world = world
        self._referee = WorkspaceReferee(violations, world.loop.time)
        cloud = FatefulCloud(of=self._behaviour, namespace=world.namespace, lost=self._referee.lost)
        self._spaces = Workspaces(world, cloud)
        self._fates: dict[str, tuple[ClaimFate, ...]] = {}
        self._peace = False
        self._processes = itertools.count(1)

    async def open(self) -> None:
        """Have the kinds served, nodes provisioned, and claims of others there."""
        await self._spaces.install()
        for name, marks in FOREIGN.items():
            metadata = {"name": name, "labels": dict(marks)}
            kind = {"apiVersion": NODE_CLAIMS.api_version, "kind": NODE_CLAIMS.kind}
            await self._world.user.create(
                NODE_CLAIMS, "", {**kind, "metadata": metadata, "spec": TERMS}
            )
        self._world.background(self._provide())

    async def _provide(self) -> None:
        async with self._spaces.provisioner():
            with served(self._world):
                await asyncio.get_running_loop().create_future()

    def kind(self, _wall: Callable[[], datetime]) -> WorkspaceKind:
        return WorkspaceKind(process=f"operator-{next(self._processes)}")

    async def do(self, action: WorkspaceAction) -> str:
        """Carry out a step; returns what the server said against it, empty if nothing."""
        try:
            match action:
                case CreateWorkspace(number, body):
                    self._fates.setdefault(NAMES[number], body.fates)
                    await self._spaces.create(NAMES[number], body.count)
                case DeleteWorkspace(number):
                    await self._spaces.delete(NAMES[number])
                case LoseClaim(pick):
                    await self._lose_claim(pick)
        except KubeError as error:
            return str(error)
        return ""

    async def _lose_claim(self, pick: int) -> None:
        names = sorted(self._referee.living)
        if names:
            name = names[pick % len(names)]
            self._referee.lost.add(name)
            await self._world.user.delete(NODE_CLAIMS, "", name)

    def act(self, _action: object) -> None:
        """Nothing of Ray goes wrong here."""

    def make_peace(self) -> None:
        """From now on the cloud has machines, and they last."""
        self._peace = True

    def saw(self, event: StoredEvent) -> None:
        self._referee(event)

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        claims, wrong = objects(str(NODE_CLAIMS)), list[str]()
        counts = dict.fromkeys((owner_uid(each) for each in claims), 0)
        for each in claims:
            counts[owner_uid(each)] += 1
        counts.pop("", None)
        for workspace in objects(str(WORKSPACES)):
            meta, count = workspace["metadata"], workspace["resource"]["count"]
            state, found = workspace.get("status", {}).get("state"), counts.pop(meta["uid"], 0)
            if "deletionTimestamp" in meta:
                wrong.append(f"{meta['name']} is not gone")
            elif (state, found) != ("Ready", count):
                wrong.append(f"{meta['name']} is {state} with {found} claims instead of {count}")
        if counts:
            wrong.append(f"claims of Workspaces that are gone: {counts}")
        return wrong

    def leaks(self) -> list[str]:
        """What has become of the claims of others."""
        table = self._world.server.store.table(str(NODE_CLAIMS)).items  # type: ignore[union-attr]
        gone = [f"{name} of somebody else is gone" for name in FOREIGN if name not in table]
        changed = [
            f"{name} of somebody else was changed"
            for name in sorted(FOREIGN.keys() & table.keys())
            if table[name].object["metadata"].get("labels", {}) != FOREIGN[name]
        ]
        return gone + changed

    def _behaviour(self, workspace: str, number: int) -> ClaimBehaviour | None:
        fates = self._fates.get(workspace, ())
        if self._peace or number >= len(fates):
            return None
        fate = fates[number]
        match fate.outcome:
            case "ready":
                return ClaimBehaviour(node_after=fate.after)
            case "without plugin":
                return ClaimBehaviour(plugin_after=fate.after)
            case "stock-out":
                return ClaimBehaviour(node_after=fate.after, stock_out=True)
            case "given up":
                gives_up_after = fate.after + 3.0
                return ClaimBehaviour(
                    node_after=fate.after, stock_out=True, gives_up_after=gives_up_after
                )
            case "lost":
                return ClaimBehaviour(lost_after=5.0 + fate.after)

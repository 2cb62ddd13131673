"""What is taken for an orphan, and what is never."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from controller.apimachinery.metadata import OWNER_UID
from controller.command.kinds import KindSettings
from controller.command.operator import operator_for
from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NodeClaim
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.kind import INTERVAL, OrphanCollector, WorkspaceKind
from controller.kube.client import Client
from controller.kube.credentials import StaticCredentials
from controller.kube.errors import KubeError, NotFound, OutcomeUnknown, Status
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import Resource
from controller.ray.api import FeatureGates
from controller.runtime.plan import Event
from controller.runtime.settings import Settings
from controller.testing.reads import FakeReads
from tests.kaito.support import workspace

ABSENT = NotFound(Status(404, "NotFound", "not found"))


def claim(uid: str = "u-1", **more: Any) -> NodeClaim:
    marks = {labels.WORKSPACE: "phi", labels.WORKSPACE_NAMESPACE: "default", OWNER_UID: uid}
    metadata = {"name": "claim", "uid": "claim-1", "labels": marks, **more}
    return msgspec.convert({"metadata": metadata}, NodeClaim)


@dataclass
class Server:
    """Answers the reads of a Workspace one after the other, the last for ever."""

    answers: list[str | KubeError]
    deleted: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, "str | None"]])
    reads: int = 0

    async def get(self, _resource: Resource[Any], namespace: str, name: str) -> KubeObject:
        assert (namespace, name) == ("default", "phi")
        answer = self.answers[min(self.reads, len(self.answers) - 1)]
        self.reads += 1
        if isinstance(answer, str):
            return KubeObject(metadata=ObjectMeta(name=name, uid=answer))
        raise answer

    async def delete(
        self, _resource: Resource[Any], _namespace: str, name: str, *, uid: str | None
    ) -> None:
        self.deleted.append((name, uid))


async def collected(
    found: NodeClaim,
    *answers: str | KubeError,
    cached: str = "",
    rounds: int = 2,
    namespaces: Sequence[str] = (),
) -> Server:
    """Let the collector work for so many rounds."""
    reads = FakeReads(WorkspaceKind()).add(NODE_CLAIMS, found)
    if cached:
        reads.add(WORKSPACES, workspace(uid=cached))
    server, events = Server(list(answers)), list[Event]()
    client: Client = server  # type: ignore[assignment]
    collector = OrphanCollector(
        client,
        reads,
        lambda resource: ["claim"] if resource is NODE_CLAIMS else [],
        lambda _resource, _meta, event: events.append(event),
        namespaces,
    )
    running = asyncio.create_task(collector.run(lambda: None))
    await asyncio.sleep((rounds + 0.5) * INTERVAL)
    collector.stop()
    await running
    assert [event.reason for event in events] == ["OrphanDeleted"] * len(server.deleted)
    return server


async def test_a_claim_of_an_earlier_workspace_of_the_name_is_deleted():
    assert (await collected(claim("u-0"), "u-1", cached="u-1")).deleted


async def test_nothing_is_read_for_a_claim_whose_workspace_is_cached():
    assert (await collected(claim(), ABSENT, cached="u-1")).reads == 0


async def test_the_live_read_decides_if_the_cache_lacks_the_workspace():
    assert (await collected(claim(), "u-1", rounds=5)).deleted == []


@pytest.mark.parametrize("doubt", ["u-1", OutcomeUnknown("lost"), ""])
async def test_one_absence_between_other_answers_deletes_nothing(doubt: str | KubeError):
    answers = (ABSENT, doubt, ABSENT, doubt)
    assert (await collected(claim(), *answers, rounds=4)).deleted == []


@pytest.mark.parametrize(
    "left",
    [
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"labels": {labels.WORKSPACE: "phi", labels.WORKSPACE_NAMESPACE: "default"}},
        {"labels": {OWNER_UID: "u-1", labels.WORKSPACE: "phi"}},
        {"labels": {**(claim().metadata.labels or {}), labels.POOL_WORKSPACE: "other",
                    labels.POOL_WORKSPACE_NAMESPACE: "default"}},
    ],
)  # fmt: skip
async def test_nothing_is_read_for_what_is_terminating_or_does_not_name_one_workspace_and_its_uid(
    left: dict[str, Any],
):
    assert (await collected(claim(**left), ABSENT)).reads == 0


async def test_nothing_is_read_in_a_namespace_that_is_not_served():
    assert (await collected(claim(), ABSENT, namespaces=["elsewhere"])).reads == 0
    assert (await collected(claim(), ABSENT, namespaces=["default"])).deleted


@pytest.mark.parametrize("served", [False, True])
async def test_an_operator_collects_orphans_if_workspaces_are_served(
    served: bool, monkeypatch: pytest.MonkeyPatch
):
    made: list[Any] = []

    def collect(*given: Any) -> None:
        made.append(given)

    monkeypatch.setattr("controller.command.operator.collect_orphans", collect)
    kinds = KindSettings.from_environment(FeatureGates({"Workspace": served}), {})
    credentials = StaticCredentials("http://127.0.0.1:1")
    watched = Settings(namespaces=("default",))
    async with operator_for(credentials, watched, user_agent="", kind_settings=kinds):
        assert [given[2] for given in made] == [("default",)] * served

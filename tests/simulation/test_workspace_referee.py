"""The referee of Workspaces sees each harm for which it is there, and excuses what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.apimachinery.ownership import OWNER_UID
from controller.devcluster.apiserver.store import Stored, StoredEvent
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import STATEFUL_SETS
from tests.simulation.workspace_referee import WorkspaceReferee

if TYPE_CHECKING:
    from controller.devcluster.apiserver.store import EventType

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Seen:
    """A referee that has seen a Workspace of one node, and its claim."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.referee = WorkspaceReferee(self.violations, lambda: 1.0)
        self.workspace()
        self.claim("c")

    def workspace(self, **metadata: Any) -> None:
        self._saw(WORKSPACES, {"metadata": {"uid": "u", **metadata}, "resource": {"count": 1}})

    def claim(self, name: str, status: str = "True", *, gone: bool = False, **meta: Any) -> None:
        metadata = {"name": name, "labels": {OWNER_UID: "u"}, **meta}
        conditions = [{"type": "Launched", "status": status}]
        body = {"metadata": metadata, "status": {"conditions": conditions}}
        self._saw(NODE_CLAIMS, body, "DELETED" if gone else "MODIFIED")

    def server(self, uid: str = "s", generation: int = 1) -> None:
        owners = [{"uid": "u"}]
        metadata = {"name": "w", "uid": uid, "generation": generation, "ownerReferences": owners}
        self._saw(STATEFUL_SETS, {"metadata": metadata})

    def _saw(self, resource: object, body: dict[str, Any], type_: EventType = "MODIFIED") -> None:
        stored = Stored(body, 1)
        self.referee(StoredEvent(type_, str(resource), "", 1, stored, None))


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_a_second_claim_is_one_too_many_also_while_the_first_is_terminating(seen: Seen):
    seen.claim("c", "False", **GOING)
    seen.claim("d")
    assert seen.violations == ["1.000 s: 2 claims at a time, 1 wanted"]


def test_a_claim_may_follow_one_that_is_gone(seen: Seen):
    seen.claim("c", "False", **GOING)
    seen.claim("c", gone=True, **GOING)
    seen.claim("d")
    assert seen.violations == []


def test_nothing_was_wrong_with_the_deleted_claim(seen: Seen):
    seen.claim("c", **GOING)
    assert seen.violations == ["1.000 s: c was deleted, although nothing was wrong with it"]


def test_a_claim_goes_with_its_workspace(seen: Seen):
    seen.workspace(**GOING)
    seen.claim("c", **GOING)
    assert seen.violations == []


def test_what_the_cloud_has_lost_may_go(seen: Seen):
    seen.referee.lost.add("c")
    seen.claim("c", **GOING)
    assert seen.violations == []


def test_a_server_is_neither_made_anew_nor_changed(seen: Seen):
    seen.server()
    seen.server("another")
    seen.server(generation=2)
    assert seen.violations == ["1.000 s: w was made anew", "1.000 s: w was changed"]

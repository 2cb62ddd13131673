"""Watches the claims and servers of Workspaces at every write to the store.

A Workspace never has more claims than it asks for. A claim is deleted only if it has failed, if
the cloud or the user has lost it, or if its Workspace goes. No server is ever made anew or changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.apimachinery.metadata import OWNER_UID
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import STATEFUL_SETS
from devcluster.apiserver.store import StoredEvent

Object = dict[str, Any]


def owner_uid(claim: Object) -> str:
    """Uid of the Workspace whose claim it is; empty if it is somebody else's."""
    marks: dict[str, str] = claim["metadata"].get("labels") or {}
    return marks.get(OWNER_UID, "")


class WorkspaceReferee:
    """Writes down what should not have happened.

    Attributes:
        living: names of the Workspaces' claims that are not being deleted.
        lost: names of claims that the cloud or the user deletes.
    """

    def __init__(self, violations: list[str], now: Callable[[], float]) -> None:
        self._violations = violations
        self._now = now
        self._wanted: dict[str, int] = {}
        self._going: set[str] = set()
        self._present: dict[str, dict[str, bool]] = {}
        self._served: dict[str, str] = {}
        self.living: set[str] = set()
        self.lost: set[str] = set()

    def __call__(self, event: StoredEvent) -> None:
        found = event.current.object
        if event.table == str(WORKSPACES):
            self._saw_workspace(found)
        elif event.table == str(NODE_CLAIMS) and owner_uid(found):
            self._saw_claim(found, gone=event.type == "DELETED")
        elif event.table == str(STATEFUL_SETS) and event.type != "DELETED":
            self._saw_server(found)

    def _saw_workspace(self, workspace: Object) -> None:
        meta = workspace["metadata"]
        self._wanted[meta["uid"]] = workspace["resource"]["count"]
        if "deletionTimestamp" in meta:
            self._going.add(meta["uid"])

    def _saw_claim(self, claim: Object, *, gone: bool) -> None:
        meta, uid = claim["metadata"], owner_uid(claim)
        name, present = meta["name"], self._present.setdefault(uid, {})
        marked = "deletionTimestamp" in meta
        if marked and not present.get(name) and not self._may_go(claim, uid):
            self._blame(f"{name} was deleted, although nothing was wrong with it")
        present[name] = marked
        (self.living.discard if marked or gone else self.living.add)(name)
        if gone:
            del present[name]
        if len(present) > self._wanted.get(uid, 0):
            self._blame(f"{len(present)} claims at a time, {self._wanted.get(uid, 0)} wanted")

    def _may_go(self, claim: Object, uid: str) -> bool:
        conditions = claim.get("status", {}).get("conditions", ())
        failed = any((each["type"], each["status"]) == ("Launched", "False") for each in conditions)
        return failed or uid in self._going or claim["metadata"]["name"] in self.lost

    def _saw_server(self, server: Object) -> None:
        meta = server["metadata"]
        for owner in meta.get("ownerReferences", ()):
            if self._served.setdefault(owner["uid"], meta["uid"]) != meta["uid"]:
                self._blame(f"{meta['name']} was made anew")
        if meta.get("generation", 1) > 1:
            self._blame(f"{meta['name']} was changed")

    def _blame(self, what: str) -> None:
        self._violations.append(f"{self._now():.3f} s: {what}")

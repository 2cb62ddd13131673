"""The referees of rolling updates and of fleets see what must never be."""

from __future__ import annotations

from typing import Any

import pytest

from controller.devcluster.apiserver.store import Stored, StoredEvent
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.pods.hashes import template_digest
from tests.integration.fleets import NEW, OLD, FleetReferee, cluster_of_image, fleet_manifest
from tests.integration.rolling import Referee, rolling_manifest

Json = dict[str, Any]
CLUSTER = rolling_manifest(2)
CURRENT = str(template_digest(CLUSTER["spec"]["workerGroupSpecs"][0]))


class Told:
    """A referee that is told the transitions of a store.

    Args:
        referee: called with each transition.
        table: of the objects that come and go.
    """

    def __init__(self, referee: Any, table: str) -> None:
        self.referee = referee
        self.table = table
        self._before: dict[str, Stored] = {}
        self._revision = 0

    def put(self, obj: Json, *, table: str = "") -> None:
        """Store an object, or a new state of it."""
        name, previous = obj["metadata"]["name"], self._before.get(obj["metadata"]["name"])
        self._before[name] = self._tell("MODIFIED" if previous else "ADDED", obj, previous, table)

    def remove(self, obj: Json) -> None:
        """Let an object go."""
        previous = self._before.pop(obj["metadata"]["name"], None)
        self._tell("DELETED", obj, previous, "")

    def _tell(self, sort: Any, obj: Json, previous: Stored | None, table: str) -> Stored:
        self._revision += 1
        now, name = Stored(obj, self._revision), obj["metadata"]["name"]
        of = table or self.table
        self.referee(StoredEvent(sort, of, f"default/{name}", self._revision, now, previous))
        return now


def ready(*, is_so: bool) -> Json:
    return {"conditions": [{"type": "Ready", "status": str(is_so)}]}


# -- pods of a group of two, of which none may be missing and one may be more ----------------------


def pod(name: str, template: str = "old", *, is_ready: bool = True, **metadata: str) -> Json:
    """A worker; `draining` or `deletionTimestamp` says since when it is."""
    annotations = {labels.TEMPLATE_HASH: template}
    if since := metadata.pop("draining", ""):
        annotations[labels.DRAINING_SINCE] = since
    kept = {"name": name, "labels": {labels.GROUP: "group-0"}, "annotations": annotations}
    return {"metadata": kept | metadata, "status": ready(is_so=is_ready)}


@pytest.fixture
def group() -> Told:
    """Both pods of a group that is to be upgraded."""
    told = Told(Referee({"group-0": (0, 1)}), "pods")
    told.put(CLUSTER, table=str(RAYCLUSTERS))
    told.put(pod("a"))
    told.put(pod("b"))
    return told


def test_one_pod_more_may_exist_but_not_two(group: Told):
    group.put(pod("c", CURRENT))
    assert group.referee.wrong == []
    group.put(pod("d", CURRENT))
    assert group.referee.wrong == ["4 pods of group-0, desired 2"]


def test_a_pod_that_is_being_deleted_still_counts_as_one_that_exists(group: Told):
    group.put(pod("c", CURRENT))
    group.put(pod("a", deletionTimestamp="now"))
    group.put(pod("d", CURRENT))
    assert group.referee.wrong == ["4 pods of group-0, desired 2"]
    group.remove(pod("a"))
    group.remove(pod("d"))
    group.put(pod("e", CURRENT))
    assert len(group.referee.wrong) == 1


@pytest.mark.parametrize("begins", [{"draining": "now"}, {"deletionTimestamp": "now"}], ids=str)
def test_a_pod_may_be_taken_only_if_enough_others_are_ready(group: Told, begins: dict[str, str]):
    group.put(pod("c", CURRENT, is_ready=False))
    group.put(pod("a", **begins))
    assert group.referee.wrong == ["1 of 2 pods of group-0 left when a is taken"]


def test_a_pod_may_be_taken_when_its_replacement_is_ready(group: Told):
    group.put(pod("c", CURRENT))
    group.put(pod("a", draining="now"))
    group.put(pod("a", draining="now", deletionTimestamp="now"))
    assert group.referee.wrong == []


def test_a_ready_pod_of_the_present_template_must_not_be_taken(group: Told):
    group.put(pod("c", CURRENT))
    group.put(pod("c", CURRENT, deletionTimestamp="now"))
    assert group.referee.wrong == ["c was ready and up to date"]


# -- copies of a fleet of two ----------------------------------------------------------------------


def copy(index: int, image: str = OLD, *, is_ready: bool = True, **metadata: str) -> Json:
    """A copy, whose name tells its index and its image."""
    name = f"fleet-{index}-{'a' * 8 if image == OLD else 'b' * 8}"
    meta = {"name": name, "uid": f"uid-{name}"} | metadata
    return {"metadata": meta, "spec": cluster_of_image(image), "status": ready(is_so=is_ready)}


def fleet_of_two(**strategy: int) -> Told:
    """Both copies of a fleet that is to be upgraded."""
    told = Told(FleetReferee(), str(RAYCLUSTERS))
    told.put(fleet_manifest(replicas=2, **strategy), table=str(RAYCLUSTERFLEETS))
    told.put(copy(0))
    told.put(copy(1))
    return told


def test_one_copy_more_may_exist_but_not_two():
    told = fleet_of_two()
    told.put(copy(0, NEW))
    assert told.referee.violations == []
    told.put(copy(1, NEW))
    assert told.referee.violations == ["ADDED fleet-1-bbbbbbbb: 4 of 2 copies exist"]
    assert (told.referee.peak, told.referee.created) == (4, 4)


def test_without_a_surge_no_copy_more_may_exist():
    told = fleet_of_two(maxSurge=0, maxUnavailable=1)
    told.put(copy(0, NEW))
    assert told.referee.violations == ["ADDED fleet-0-bbbbbbbb: 3 of 2 copies exist"]


def test_a_copy_may_go_only_when_its_replacement_is_ready():
    told = fleet_of_two()
    told.put(copy(0, NEW, is_ready=False))
    told.put(copy(0, deletionTimestamp="now"))
    assert told.referee.violations == [
        "MODIFIED fleet-0-aaaaaaaa: 1 of 2 copies are ready",
        "MODIFIED fleet-0-aaaaaaaa: no copy is ready for [0]",
    ]


def test_as_many_copies_may_be_missing_as_the_strategy_says():
    told = fleet_of_two(maxSurge=0, maxUnavailable=1)
    told.put(copy(0, deletionTimestamp="now"))
    assert told.referee.violations == []
    told.put(copy(1, deletionTimestamp="now"))
    assert told.referee.violations != []


def test_a_replacement_of_another_index_does_not_stand_for_this_one():
    told = fleet_of_two()
    told.put(copy(0, NEW))
    told.put(copy(1, deletionTimestamp="now"))
    assert told.referee.violations == ["MODIFIED fleet-1-aaaaaaaa: no copy is ready for [1]"]

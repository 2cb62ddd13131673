"""What a RayService does, and begins not, while its specification is invalid."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.objects import Service
from controller.kube.resources import SERVICES
from controller.ray.api import RayCluster, labels
from controller.ray.service.condition_types import UPGRADE_IN_PROGRESS
from controller.runtime.plan import Create, Delete, MergePatch
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import ACTIVE, NEW, OLD, PENDING, STEPWISE, Scene, edition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.service.observation import ServiceObservation
    from controller.runtime.plan import Plan, Write

SHARES = {"targetCapacity": 40, "trafficRoutedPercent": 40}
WAITS = "waits for a valid specification"


class Refused(Scene):
    """A RayService whose newest edit is invalid, with services for the active cluster."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(edition(NEW, **spec))
        self.wanted["spec"]["serveConfigV2"] = "applications: 1"
        self.wanted["metadata"]["generation"] = 3

    def leads_to(self, cluster: str, *, port: int = 8000) -> None:
        self.selects(cluster)
        head, serve = self.services
        body = msgspec.to_builtins(serve)
        body["spec"] |= {
            "selector": {"ray.io/cluster": cluster, "ray.io/serve": "true"},
            "ports": [{"name": "serve", "port": 80, "targetPort": port}],
        }
        self.services = [head, msgspec.convert(body, Service)]

    def refused(self) -> Plan:
        return self.kind.plan(self.observe(valid=False), NOW)


def upgrading(*, port: int = 8000) -> Refused:
    """An upgrade from one image to another one, in which the services lead to the old cluster."""
    scene = Refused()
    scene.has(ACTIVE, edition(OLD))
    scene.has(PENDING, edition(NEW))
    scene.leads_to("svc-aaaaa", port=port)
    return scene


def writes(plan: Plan) -> list[Write]:
    return [*(write for stage in plan.stages for write in stage), *plan.independent]


def moved(plan: Plan) -> dict[str, str]:
    """The clusters to which services are led, by name of the service."""
    return dict(_moved(plan))


def _moved(plan: Plan) -> Iterator[tuple[str, str]]:
    for each in plan.independent:
        if isinstance(each, MergePatch) and each.target.resource is SERVICES:
            selector = each.patch["spec"].get("selector", {})
            yield each.target.name, selector.get("ray.io/cluster", "")


def progress(plan: Plan) -> str:
    assert plan.status is not None
    found = find_condition(plan.status.wanted["conditions"], UPGRADE_IN_PROGRESS)
    return "" if found is None else found["message"]


def test_the_services_follow_to_a_pending_cluster_that_serves():
    plan = upgrading().refused()
    assert moved(plan) == {"svc-head-svc": "svc-bbbbb", "svc-serve-svc": "svc-bbbbb"}
    assert WAITS not in progress(plan)


def test_the_services_stay_until_the_pending_cluster_serves():
    scene = upgrading()
    del scene.states["uid-of-svc-bbbbb"]
    plan = scene.refused()
    assert moved(plan) == {"svc-head-svc": ""}, "repaired, and nothing is written to the other one"
    assert "until cluster svc-bbbbb serves" in progress(plan)


def test_a_pending_cluster_to_which_the_services_lead_is_promoted():
    scene = upgrading()
    scene.services.clear()
    scene.leads_to("svc-bbbbb")
    commit = scene.refused().commit
    assert isinstance(commit, MergePatch)
    assert commit.patch["status"][ACTIVE]["rayClusterName"] == "svc-bbbbb"
    assert commit.patch["status"][PENDING] is None


def test_a_pending_cluster_that_the_services_do_not_fit_waits():
    plan = upgrading(port=8123).refused()
    assert moved(plan) == {}
    assert WAITS in progress(plan)


def test_an_upgrade_without_a_service_of_the_applications_waits():
    scene = upgrading()
    del scene.services[1]
    plan = scene.refused()
    assert plan.commit is None
    assert moved(plan) == {}
    assert WAITS in progress(plan)


def test_an_incremental_upgrade_waits():
    scene = Refused(upgradeStrategy=STEPWISE)
    scene.has(ACTIVE, edition(OLD), targetCapacity=60, trafficRoutedPercent=60)
    scene.has(PENDING, edition(NEW), **SHARES)
    scene.leads_to("svc-aaaaa")
    plan = scene.refused()
    assert plan.commit is None
    assert moved(plan) == {}
    assert WAITS in progress(plan)


@pytest.mark.parametrize("recorded", [(), (ACTIVE,), (PENDING,), (ACTIVE, PENDING)])
def test_no_cluster_is_begun_or_given_up(recorded: tuple[str, ...]):
    scene = Refused()
    for role in recorded:
        scene.has(role, edition(OLD))
    scene.clusters.clear()
    plan = scene.refused()
    assert plan.commit is None
    assert [each for each in writes(plan) if isinstance(each, Create | Delete)] == []


@pytest.mark.parametrize(
    ("spec", "written"),
    [
        ({}, "2026-08-20T10:01:00Z"),
        ({"rayClusterDeletionDelaySeconds": 5}, "2026-08-20T10:00:05Z"),
        ({"rayClusterDeletionDelaySeconds": -1}, None),
        ({"rayClusterDeletionDelaySeconds": "5"}, None),
        ({"rayClusterDeletionDelaySeconds": 2**31}, None),
    ],
)
def test_a_replaced_cluster_is_deleted_after_its_delay_if_that_is_valid(
    spec: dict[str, Any], written: str | None
):
    assert deletion(replaced(**spec)) == written


def test_without_an_active_cluster_no_other_one_is_deleted():
    assert deletion(replace(replaced(), active=None)) is None


def replaced(**spec: Any) -> ServiceObservation:
    """An upgrade that ended while the specification was invalid already."""
    scene = Refused(**spec)
    scene.has(ACTIVE, edition(NEW))
    scene.leads_to("svc-aaaaa")
    body = {"metadata": {"name": "svc-ccccc", "uid": "c"}}
    return replace(scene.observe(valid=False), others=(msgspec.convert(body, RayCluster),))


def deletion(seen: ServiceObservation) -> str | None:
    """The time that the plan writes onto the replaced cluster."""
    for each in Refused().kind.plan(seen, NOW).independent:
        if isinstance(each, MergePatch) and each.target.name == "svc-ccccc":
            return each.patch["metadata"]["annotations"][labels.DELETE_AFTER]
    return None

"""What a RayService does, and begins not, while its specification is invalid."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import find_condition
from controller.kube.objects import KubeObject, Service
from controller.kube.resources import SERVICES, Resource
from controller.ray.api import RAYCLUSTERS, RayCluster, labels
from controller.ray.api.rayservice import ROLLBACK_IN_PROGRESS, UPGRADE_IN_PROGRESS
from controller.ray.service.observation import ServiceObservation
from controller.runtime.plan import Create, Delete, MergePatch, Plan, Write
from tests.ray.cluster.support import NOW
from tests.ray.service.scenes import ACTIVE, NEW, OLD, PENDING, STEPWISE, Scene, edition, serving

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


def upgrading(*, port: int = 8000, **spec: Any) -> Refused:
    """An upgrade from one image to another one, in which the services lead to the old cluster."""
    scene = Refused(**spec)
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


UNREADABLE = {"serveService": {"spec": {"ports": 8000}}}


def test_a_service_with_other_ports_than_the_pending_cluster_gets_those():
    scene = upgrading(port=8123)
    plan = scene.refused()
    assert moved(plan) == {"svc-head-svc": "svc-bbbbb", "svc-serve-svc": "svc-bbbbb"}
    (serve,) = [each for each in plan.independent if each.target.name == "svc-serve-svc"]
    assert isinstance(serve, MergePatch)
    assert [each["port"] for each in serve.patch["spec"]["ports"]] == [8000]


def test_a_pending_cluster_that_the_services_do_not_fit_waits_for_a_valid_template():
    plan = upgrading(port=8123, **UNREADABLE).refused()
    assert moved(plan) == {}
    assert WAITS in progress(plan)


def test_an_upgrade_without_a_service_of_the_applications_waits_for_a_valid_template():
    scene = upgrading(**UNREADABLE)
    del scene.services[1]
    plan = scene.refused()
    assert plan.commit is None
    assert moved(plan) == {}
    assert WAITS in progress(plan)


def stepping(
    *conditions: str,
    pending: int = 40,
    moved: int = 40,
    made_with: dict[str, Any] | None = None,
    **spec: Any,
) -> Refused:
    """An incremental upgrade in which the pending cluster has this capacity, and gets `moved`.

    Args:
        conditions: those that are true.
        pending: capacity of the pending cluster.
        moved: its share of the requests.
        made_with: the strategy with which it was created.
        spec: the fields of the refused edit.
    """
    scene = Refused(**{"upgradeStrategy": STEPWISE} | spec)
    scene.status["conditions"] += [{"type": each, "status": "True"} for each in conditions]
    rest = {"targetCapacity": 100 - pending, "trafficRoutedPercent": 100 - moved}
    scene.has(ACTIVE, edition(OLD), **rest)
    made = edition(NEW, **({} if made_with is None else {"upgradeStrategy": made_with}))
    scene.has(PENDING, made, targetCapacity=pending, trafficRoutedPercent=moved)
    scene.leads_to("svc-aaaaa")
    return scene


def committed(plan: Plan) -> dict[str, Any]:
    assert isinstance(plan.commit, MergePatch)
    return plan.commit.patch["status"]


def test_an_incremental_upgrade_goes_on_by_the_steps_of_the_specification():
    assert committed(stepping().refused())[PENDING]["targetCapacity"] == 60


def test_an_incremental_upgrade_waits_for_the_interval_of_the_specification():
    scene = stepping()
    scene.status[ACTIVE] |= {"targetCapacity": 80, "trafficRoutedPercent": 80}
    scene.status[PENDING]["trafficRoutedPercent"] = 20
    scene.status[PENDING]["lastTrafficMigratedTime"] = "2026-08-20T10:00:00Z"
    scene.states["uid-of-svc-aaaaa"] = serving(scene.clusters[ACTIVE], 80, 80)
    plan = scene.refused()
    assert plan.commit is None
    assert plan.requeue_after == 1
    assert "cluster svc-bbbbb has 40 % and gets 20 %; waits for" in progress(plan)
    later = scene.kind.plan(scene.observe(valid=False), NOW + timedelta(seconds=2))
    assert committed(later)[PENDING]["trafficRoutedPercent"] == 40


def test_a_rollback_goes_on_to_its_end():
    assert committed(stepping(ROLLBACK_IN_PROGRESS).refused())[ACTIVE]["targetCapacity"] == 80
    done = committed(stepping(ROLLBACK_IN_PROGRESS, pending=0, moved=0).refused())
    assert done[PENDING] is None


BROKEN = [
    {"upgradeStrategy": STEPWISE | {"clusterUpgradeOptions": {"stepSizePercent": 200}}},
    {"upgradeStrategy": {"type": "NewCluster"}},
    {"upgradeStrategy": {"type": STEPWISE["type"]}},
    {"upgradeStrategy": "soon"},
    {},
]


@pytest.mark.parametrize("spec", BROKEN)
def test_an_incremental_upgrade_goes_on_by_the_steps_it_began_with(spec: dict[str, Any]):
    scene = stepping(made_with=STEPWISE, **spec)
    assert committed(scene.refused())[PENDING]["targetCapacity"] == 60
    back = stepping(ROLLBACK_IN_PROGRESS, made_with=STEPWISE, **spec)
    assert committed(back.refused())[ACTIVE]["targetCapacity"] == 80
    done = stepping(pending=100, moved=100, made_with=STEPWISE, **spec)
    done.services.clear()
    done.leads_to("svc-bbbbb")
    assert committed(done.refused())[ACTIVE]["rayClusterName"] == "svc-bbbbb"


@pytest.mark.parametrize("stored", [None, "", "soon", "[]", '{"stepSizePercent": 200}'])
def test_an_incremental_upgrade_waits_if_nobody_knows_its_steps(stored: str | None):
    for spec in BROKEN[:-1]:
        scene = stepping(made_with=STEPWISE, **spec)
        annotations = scene.clusters[PENDING].metadata.annotations
        assert annotations is not None
        del annotations[labels.UPGRADE_OPTIONS]
        if stored is not None:
            annotations[labels.UPGRADE_OPTIONS] = stored
        plan = scene.refused()
        assert plan.commit is None
        assert moved(plan) == {}
        assert WAITS in progress(plan)


def test_edited_steps_are_stored_on_the_cluster_that_they_lead_to():
    scene = stepping(made_with=STEPWISE)
    scene.wanted["spec"]["serveConfigV2"] = edition(NEW)["spec"]["serveConfigV2"]
    options = STEPWISE["clusterUpgradeOptions"] | {"stepSizePercent": 10}
    scene.wanted["spec"]["upgradeStrategy"] = STEPWISE | {"clusterUpgradeOptions": options}
    scene.status[PENDING] |= {"lastTrafficMigratedTime": "2026-08-20T10:00:00Z"}
    scene.status[PENDING]["trafficRoutedPercent"] = 20
    scene.states["uid-of-svc-aaaaa"] = serving(scene.clusters[ACTIVE], 80, 80)
    scene.status[ACTIVE] |= {"targetCapacity": 80, "trafficRoutedPercent": 80}
    (write,) = [
        each
        for each in writes(scene.plan())
        if isinstance(each, MergePatch)
        and each.target.name == "svc-bbbbb"
        and labels.UPGRADE_OPTIONS in each.patch["metadata"].get("annotations", {})
    ]
    assert '"stepSizePercent":10' in write.patch["metadata"]["annotations"][labels.UPGRADE_OPTIONS]


def first(**spec: Any) -> Refused:
    """A RayService whose first cluster had begun before the edit."""
    scene = Refused(**spec)
    scene.has(PENDING, edition(OLD))
    return scene


STABLE = {"svc-head-svc", "svc-serve-svc"}


def created(plan: Plan) -> set[str]:
    """The stable services that are created."""
    return STABLE & {each.target.name for each in writes(plan) if isinstance(each, Create)}


def test_a_first_cluster_gets_its_services_when_it_serves():
    assert created(first().refused()) == STABLE
    scene = first()
    scene.states.clear()
    assert created(scene.refused()) == set()


def test_a_first_cluster_waits_if_the_template_of_its_service_is_invalid():
    plan = first(serveService={"spec": {"ports": 8000}}).refused()
    assert (plan.commit, created(plan)) == (None, set())


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
        ({"rayClusterDeletionDelaySeconds": 5, "upgradeStrategy": 1}, "2026-08-20T10:00:05Z"),
        ({"rayClusterDeletionDelaySeconds": 5, **UNREADABLE}, "2026-08-20T10:00:05Z"),
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


def conditions(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in found["conditions"]}


class Unrouted(Refused):
    """One that has no Gateway."""

    def gateway_objects(self) -> Iterator[tuple[Resource[Any], KubeObject | None]]:
        yield from ()


def test_a_suspension_does_not_wait_for_the_correction_of_another_field():
    scene = Unrouted(suspend=True)
    scene.has(ACTIVE, edition(NEW))
    status = committed(scene.refused())
    told = conditions(status)
    assert told["Suspending"]["status"] == "True"
    assert "serveConfigV2" in told["Ready"]["message"]
    scene.status = {"conditions": status["conditions"]}
    scene.clusters.clear()
    told = conditions(committed(scene.refused()))
    assert told["Suspended"]["status"] == "True"
    scene.status = {"conditions": list(told.values())}
    kept = scene.refused()
    assert kept.commit is None
    assert kept.status is not None
    told = conditions(dict(kept.status.wanted))
    assert told["Suspended"]["status"] == "True", "it stays suspended"
    assert told["Ready"]["reason"] == "ValidationFailed"


@pytest.mark.parametrize("suspend", ["yes", False, None])
def test_nothing_goes_for_a_suspension_that_is_not_asked_for_in_valid_words(suspend: object):
    scene = Refused(suspend=suspend)
    scene.has(ACTIVE, edition(NEW))
    scene.leads_to("svc-aaaaa")
    assert scene.refused().commit is None


@pytest.mark.parametrize(("suspend", "written"), [(True, [True]), (False, []), ("yes", [])])
def test_clusters_in_a_queue_are_suspended_beside_a_wrong_field_and_not_resumed(
    suspend: object, written: list[bool]
):
    scene = Refused()
    scene.wanted["spec"]["rayClusterConfig"]["suspend"] = suspend
    made_of = edition(NEW)
    made_of["spec"]["rayClusterConfig"]["suspend"] = suspend is False
    scene.has(ACTIVE, made_of)
    scene.leads_to("svc-aaaaa")
    made = [each for each in writes(scene.refused()) if isinstance(each, MergePatch)]
    asked = [each.patch["spec"] for each in made if each.target.resource is RAYCLUSTERS]
    assert asked == [{"suspend": each} for each in written]

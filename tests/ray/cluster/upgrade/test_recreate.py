"""`upgradeStrategy: Recreate` replaces all pods for a real change, and for nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controller.kube.resources import PODS
from controller.ray.api import RayCluster, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.pods.hashes import recreate_digest
from controller.ray.settings import RaySettings
from controller.runtime.plan import Create, Delete, LiveList, MergePatch, Plan, Write
from tests.ray.cluster.support import cluster, head, manifest, plan, workers
from tests.ray.cluster.test_plan import conditions, settled, suspension, verbs, with_status

HASH = "ray.io/upgrade-strategy-recreate-hash"
VERSION = "ray.io/kuberay-version"
OURS = RaySettings().version


def upgraded(strategy: str | None = "Recreate", *, image: str = "new", **spec: Any) -> RayCluster:
    raw = manifest()
    raw["spec"]["upgradeStrategy"] = {"type": strategy} if strategy else None
    raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = image
    return cluster(raw, **spec)


def wanted(obj: RayCluster) -> str:
    return str(recreate_digest(obj.spec))


def stamped(hash_: str | None, version: str | None = OURS, **more: Any) -> Any:
    given = {HASH: hash_, VERSION: version}
    return head(annotations={key: value for key, value in given.items() if value}, **more)


OLD = wanted(upgraded(image="old"))
HEAD = "example-head-aaaaaaaa"


def stages(made: Plan) -> list[list[str]]:
    return [[write.target.name for write in stage] for stage in made.stages]


def test_an_interrupted_replacement_goes_on_as_long_as_the_head_is_there():
    going = workers(2, terminating=True)
    made = plan(settled(upgraded(), stamped(OLD), *going, listed=True))
    assert stages(made) == [[HEAD]]
    assert verbs(made, Create) == []
    gone = plan(settled(upgraded(), stamped(OLD, terminating=True), *going, listed=True))
    assert gone.stages == ()


def test_pods_that_no_cache_shows_are_looked_for_first():
    made = plan(settled(upgraded(), stamped(OLD), *workers(2)))
    assert made.lookups == (
        LiveList(made.lookups[0].resource, "default", "ray.io/cluster=example"),
    )
    assert (made.stages, made.status) == ((), None)


@pytest.mark.parametrize("scope", ["head", "worker/workers"])
def test_the_head_stays_while_a_lost_create_may_still_bring_an_old_worker(scope: str):
    pending = frozenset({scope})
    made = plan(settled(upgraded(), stamped(OLD), *workers(2), listed=True, pending=pending))
    assert HEAD not in verbs(made, Delete)
    assert len(verbs(made, Delete)) == (2 if scope == "head" else 0)


def test_a_head_that_has_ended_is_replaced_with_everything_else():
    made = plan(settled(upgraded(), stamped(OLD, phase="Failed"), *workers(2), listed=True))
    assert len(verbs(made, Delete)) == 3


def stamps(made: Plan) -> list[Write]:
    """Those of the specification; each pod's own template is stamped whatever the strategy."""
    return [
        write
        for write in made.independent
        if write.target.resource is PODS and labels.RECREATE_HASH in str(write)
    ]


def test_groups_ports_and_variables_in_another_order_re_create_nothing():
    raw = manifest()
    groups = raw["spec"]["workerGroupSpecs"]
    groups.append({**groups[0], "groupName": "another"})
    ray = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    ray["env"] = [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]
    raw["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    before = stamped(wanted(cluster(copy.deepcopy(raw))))
    for each in (groups, ray["env"], ray["ports"]):
        each.reverse()
    made = plan(settled(cluster(raw), before, *workers(2), listed=True))
    assert verbs(made, Delete) == []


@pytest.mark.parametrize(
    ("hash_", "version"),
    [
        pytest.param("3F2BAUAMVLRQL0C9GVK83Q6JRDRQNBPE", "v1.5.1", id="KubeRay's"),
        pytest.param("3F2BAUAMVLRQL0C9GVK83Q6JRDRQNBPE", OURS, id="another algorithm"),
        pytest.param("0-OLDALGORITHM", OURS, id="an older algorithm of ours"),
        pytest.param(OLD, "manta-0.0.0", id="another version of ours"),
        pytest.param(OLD, None, id="no version"),
        pytest.param(None, OURS, id="no hash"),
        pytest.param(None, None, id="neither"),
    ],
)
def test_a_hash_that_is_not_comparable_is_replaced_and_no_pod_is(
    hash_: str | None, version: str | None
):
    obj = upgraded()
    made = plan(settled(obj, stamped(hash_, version), *workers(2), listed=True))
    assert made.stages == ()
    (patch,) = stamps(made)
    assert isinstance(patch, MergePatch)
    assert (patch.target.name, patch.uid) == (HEAD, f"uid-of-{HEAD}")
    assert patch.patch == {"metadata": {"annotations": {HASH: wanted(obj), VERSION: OURS}}}
    at_rest = plan(settled(obj, stamped(wanted(obj)), *workers(2)))
    assert (at_rest.stages, stamps(at_rest)) == ((), [])


def test_a_head_is_stamped_before_the_cluster_is_complete():
    """Else a specification that is edited meanwhile would be taken for the one it was made from."""
    made = plan(settled(upgraded(), stamped("KUBERAYS", "v1.6.0"), *workers(1)))
    assert [type(write) for stage in made.stages for write in stage] == [Create]
    assert [write.target.name for write in stamps(made)] == [HEAD]


def test_what_every_new_head_carries_is_comparable_later():
    (body,) = (
        write.body
        for stage in plan(settled(upgraded(None))).stages
        for write in stage
        if isinstance(write, Create) and write.target.scope == "head"
    )
    assert body["metadata"]["annotations"][HASH] == wanted(upgraded())
    assert body["metadata"]["annotations"][VERSION] == OURS


def test_of_several_heads_the_one_in_use_is_compared():
    obj = upgraded()
    current = stamped(wanted(obj), created="2026-08-20T08:00:00Z")
    stray = head("stray", annotations={HASH: OLD, VERSION: OURS}, ready=False)
    assert verbs(plan(settled(obj, current, stray, *workers(2))), Delete) == ["stray"]
    going = head("going", annotations={HASH: OLD, VERSION: OURS}, terminating=True)
    assert plan(settled(obj, going, current, *workers(2))).stages == ()


def test_suspension_comes_before_recreation():
    suspended = upgraded(suspend=True)
    assert plan(settled(suspended, stamped(OLD), *workers(2))).stages == ()
    going = with_status(upgraded(), suspension("True", "False"))
    made = plan(settled(going, stamped(OLD), *workers(2)))
    assert len(made.stages) == 1
    assert conditions(made)["RayClusterSuspending"] == "True"


def test_a_resumed_cluster_is_not_recreated_for_having_been_suspended():
    before, after = upgraded(), upgraded(suspend=False)
    assert plan(settled(after, stamped(wanted(before)), *workers(2))).stages == ()


@pytest.mark.parametrize("origin", ["RayJob", "RayService"])
def test_clusters_of_jobs_and_services_are_never_recreated(origin: str):
    raw = manifest()
    raw["metadata"]["labels"] = {"ray.io/originated-from-crd": origin}
    raw["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    made = plan(settled(cluster(raw), stamped(OLD), *workers(2), listed=True))
    assert made.stages == ()
    assert [event.reason for event in made.events] == ["InvalidRayClusterSpec"]


def test_scaling_under_recreate_is_scaling():
    raw = manifest()
    raw["spec"]["upgradeStrategy"] = {"type": "Recreate"}
    before = wanted(cluster(raw))
    raw["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    made = plan(settled(cluster(raw), stamped(before), *workers(2)), RayClusterKind())
    assert len(verbs(made, Create)) == 1
    assert verbs(made, Delete) == []

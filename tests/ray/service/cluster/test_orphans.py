"""A cluster that lost its owner reference is replaced by none, which would lose it too."""

from __future__ import annotations

import msgspec
import pytest

from controller.kube.objects import OwnerReference
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.service.facts import collect_facts
from controller.ray.service.observation import ACTIVE, PENDING
from controller.ray.service.readiness import first_cause
from controller.ray.service.rollout import GoalCluster
from controller.runtime.plan import Create, Plan
from tests.ray.service.scenes import NEW, OLD, Scene, edition

THEIRS = OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="u", controller=True)


def disown(scene: Scene, role: str, *owners: OwnerReference, labelled: bool = True) -> None:
    cluster = scene.clusters[role]
    meta = msgspec.structs.replace(cluster.metadata, owner_references=owners)
    if not labelled:
        meta = msgspec.structs.replace(meta, labels={})
    scene.clusters[role] = msgspec.structs.replace(cluster, metadata=meta)


def created_or_decided(plan: Plan) -> bool:
    writes = [write for stage in plan.stages for write in stage]
    return plan.commit is not None or any(
        isinstance(write, Create) and write.target.resource is RAYCLUSTERS for write in writes
    )


@pytest.mark.parametrize("wanted", [OLD, NEW])
@pytest.mark.parametrize("role", [ACTIVE, PENDING])
@pytest.mark.parametrize(("owners", "labelled"), [((), True), ((), False), ((THEIRS,), True)])
def test_no_cluster_takes_the_place_of_one_without_its_owner_reference(
    wanted: str, role: str, owners: tuple[OwnerReference, ...], *, labelled: bool
):
    scene = Scene(edition(wanted))
    scene.has(role, edition(OLD))
    disown(scene, role, *owners, labelled=labelled)
    assert not created_or_decided(scene.plan())
    cause = first_cause(scene.observe(), ())
    name = scene.clusters[role].metadata.name
    assert cause.message == (
        f"RayCluster {name} no longer belongs to this RayService, because another client took its "
        "owner reference away; stop that client and delete the cluster"
    )


def test_a_cluster_that_others_created_under_a_name_of_ours_is_replaced():
    scene = Scene(edition(OLD))
    scene.has(PENDING, edition(OLD))
    disown(scene, PENDING, THEIRS, labelled=False)
    assert created_or_decided(scene.plan())


def test_an_upgrade_goes_on_although_the_active_cluster_lost_its_owner_reference():
    scene = Scene(edition(NEW))
    scene.has(ACTIVE, edition(OLD))
    scene.has(PENDING, edition(NEW))
    disown(scene, ACTIVE)
    facts = collect_facts(scene.observe())
    assert (facts.goal, facts.active.exists) == (GoalCluster.PENDING, True)

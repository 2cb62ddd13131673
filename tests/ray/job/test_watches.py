"""Which events enqueue a RayJob."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.objects import KubeObject
from controller.ray.job.observe import CLUSTER_INDEX, WATCHES, cluster_keys, submitter_keys
from controller.runtime.kind import References
from tests.ray.cluster.support import pod
from tests.ray.job.rayjobs import job_manifest, rayjob
from tests.ray.job.scenes import CLUSTER, cluster, head_pod


def references(kind: str) -> References[Any]:
    (found,) = [owned.references for owned in WATCHES if owned.resource.kind == kind]
    assert found is not None
    return found


@pytest.mark.parametrize(("kind", "obj"), [("RayCluster", cluster()), ("Pod", head_pod())])
def test_a_cluster_and_its_head_enqueue_the_jobs_whose_status_names_the_cluster(
    kind: str, obj: KubeObject
):
    job = rayjob(job_manifest() | {"status": {"rayClusterName": CLUSTER}})
    assert references(kind).index == CLUSTER_INDEX
    assert references(kind).of_primary(job) == references(kind).of_object(obj)


def test_a_worker_enqueues_no_job():
    labels = {"ray.io/cluster": CLUSTER, "ray.io/node-type": "worker"}
    assert references("Pod").of_object(pod("x", labels=labels)) == ()


@pytest.mark.parametrize("status", [{}, {"rayClusterName": ""}, {"rayClusterName": 1}, "odd"])
def test_a_job_without_a_cluster_in_its_status_refers_to_none(status: Any):
    assert cluster_keys(rayjob(job_manifest() | {"status": status})) == ()


def test_a_submitters_pod_enqueues_its_job_and_no_other_pod_does():
    labels = {"ray.io/node-type": "submitter", "ray.io/originated-from-cr-name": "example"}
    assert submitter_keys(pod("x", labels=labels)) == ("default/example",)
    assert submitter_keys(pod("x", labels={"ray.io/originated-from-cr-name": "example"})) == ()

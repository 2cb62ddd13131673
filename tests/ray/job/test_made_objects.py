"""What a RayJob makes: the rules behind the objects that are written down whole elsewhere."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.metadata import ALPHABET
from controller.kube.objects import KubeObject
from controller.ray.api import FeatureGates, RayCluster
from controller.ray.api.raycluster import ClusterSpec, parse_spec
from controller.ray.api.validation.cluster import validate_cluster
from controller.ray.children.child_cluster import child_cluster_name
from controller.ray.children.services import stable_head_service_name
from controller.ray.job.attempt import cluster_body
from controller.ray.job.observe import (
    CLUSTER_INDEX,
    WATCHES,
    cluster_keys,
    generated_submission_id,
    submitter_keys,
)
from controller.ray.job.submitter import SubmissionTarget, submission, submitter_job, submitter_name
from controller.ray.settings import RaySettings
from controller.runtime.kind import References
from tests.ray.cluster.support import pod, with_meta
from tests.ray.job.rayjobs import job_manifest, rayjob, valid
from tests.ray.job.scenes import CLUSTER, cluster, head_pod

RESTARTS = RaySettings(feature_gates=FeatureGates.parse("SidecarSubmitterRestart=true"))
LOGIN = RaySettings(login_shell=True)


def made_cluster(settings: RaySettings | None = None, **spec: Any) -> dict[str, Any]:
    job = rayjob(**spec)
    return cluster_body(job, valid(job), "example-bcdfg", "id", settings or RaySettings())


def sidecar(settings: RaySettings | None = None, **spec: Any) -> dict[str, Any]:
    """The submitter's container in the head."""
    body = made_cluster(settings, submissionMode="SidecarMode", **spec)
    return body["spec"]["headGroupSpec"]["template"]["spec"]["containers"][-1]


def submitter(settings: RaySettings | None = None, **spec: Any) -> dict[str, Any]:
    job = rayjob(**spec)
    cluster = msgspec.convert({"spec": job.spec["rayClusterSpec"]}, RayCluster)
    target = SubmissionTarget("example-bcdfg", parse_spec(cluster), "head:8265", "id")
    return submitter_job(job, valid(job), target, settings or RaySettings())


def test_names_are_kuberays_and_those_of_an_attempt_never_change():
    meta = rayjob().metadata
    for name in (child_cluster_name(meta, "1"), generated_submission_id(meta, "1")):
        stem, _, suffix = name.rpartition("-")
        assert stem == "example"
        assert len(suffix) == 5
        assert set(suffix) <= set(ALPHABET)
    assert child_cluster_name(meta, "1") == child_cluster_name(meta, "1")
    assert submitter_name(meta) == "example"
    assert stable_head_service_name(meta) == "example-head-svc"


def test_each_attempt_and_each_namesake_has_names_of_its_own():
    meta = rayjob().metadata
    other = with_meta(rayjob(), uid="another").metadata
    names = {child_cluster_name(each, str(n)) for n in range(100) for each in (meta, other)}
    ids = {generated_submission_id(each, str(n)) for n in range(100) for each in (meta, other)}
    assert len(names | ids) == 400


def test_the_longest_name_of_a_job_gives_a_cluster_that_is_valid():
    job = rayjob(job_manifest("a" * 47))
    name = child_cluster_name(job.metadata, "1")
    assert len(name) == 53
    body = cluster_body(job, valid(job), name, "id", RaySettings())
    assert isinstance(validate_cluster(msgspec.convert(body, RayCluster)), ClusterSpec)


def test_a_cluster_carries_the_jobs_labels_and_annotations_but_not_what_kubectl_noted():
    job = with_meta(
        rayjob(),
        labels={"kueue.x-k8s.io/queue-name": "q", "ray.io/originated-from-cr-name": "x"},
        annotations={"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    meta = cluster_body(job, valid(job), "a", "id", RaySettings())["metadata"]
    assert meta["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert meta["labels"]["ray.io/originated-from-cr-name"] == "example"
    assert meta["annotations"] == {"a": "b"}


@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode"])
def test_making_objects_changes_no_cached_specification(mode: str):
    template = {"spec": {"containers": [{"name": "a"}]}} if mode == "K8sJobMode" else None
    job = rayjob(submissionMode=mode, submitterPodTemplate=template)
    spec = valid(job)
    before = msgspec.json.encode(spec)
    body = cluster_body(job, spec, "a", "id", RaySettings())
    body["spec"]["headGroupSpec"]["template"]["spec"]["containers"].clear()
    cluster = parse_spec(msgspec.convert({"spec": job.spec["rayClusterSpec"]}, RayCluster))
    submitter_job(job, spec, SubmissionTarget("a", cluster, "head:8265", "id"), RaySettings())
    assert msgspec.json.encode(spec) == before


def test_a_sidecar_submits_once_and_is_not_restarted():
    container = sidecar()
    assert "restartPolicy" not in container
    assert "ray job status" not in container["args"][0]
    assert container["command"] == ["/bin/bash", "-ce", "--"]


def test_with_the_gate_a_sidecar_may_be_restarted_and_asks_before_it_submits():
    container = sidecar(RESTARTS)
    assert container["restartPolicy"] == "OnFailure"
    assert "if ! ray job status --address http://127.0.0.1:8265 id" in container["args"][0]


def test_a_sidecar_comes_after_the_users_containers_and_the_head_is_not_restarted():
    raw = job_manifest(submissionMode="SidecarMode")
    pod = raw["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    pod["containers"].append({"name": "beside"})
    job = rayjob(raw)
    body = cluster_body(job, valid(job), "a", "id", RaySettings())
    made = body["spec"]["headGroupSpec"]["template"]["spec"]
    assert [each["name"] for each in made["containers"]][1:] == ["beside", "ray-job-submitter"]
    assert made["restartPolicy"] == "Never"


def test_a_container_of_its_name_in_the_template_changes_some_of_a_sidecar():
    raw = job_manifest(submissionMode="SidecarMode")
    pod = raw["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    own = {"name": "ray-job-submitter", "resources": {"limits": {"cpu": "100m"}}}
    pod["containers"].append(own | {"env": [{"name": "A", "value": "1"}]})
    job = rayjob(raw)
    body = cluster_body(job, valid(job), "a", "id", RaySettings())
    _, submitter = body["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert submitter["resources"] == own["resources"]
    assert submitter["image"]
    assert "ray job submit" in submitter["args"][0]
    assert {"A", "RAY_JOB_SUBMISSION_ID"} <= {each["name"] for each in submitter["env"]}


def test_a_login_shell_may_run_the_script():
    assert sidecar(LOGIN)["command"] == ["/bin/bash", "-cel", "--"]
    pod = submitter(LOGIN)["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["/bin/bash", "-cel", "--"]


def test_a_template_without_restart_policy_gets_one_that_a_job_may_have():
    template = {"spec": {"containers": [{"name": "a"}]}}
    pod = submitter(submitterPodTemplate=template)["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"


def test_a_users_command_is_kept_and_gets_the_variables():
    template = {"spec": {"containers": [{"name": "a", "command": ["x"], "args": ["y"]}]}}
    pod = submitter(submitterPodTemplate=template)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (container["command"], container["args"]) == (["x"], ["y"])
    assert {entry["name"]: entry["value"] for entry in container["env"]} == {
        "PYTHONUNBUFFERED": "1",
        "RAY_DASHBOARD_ADDRESS": "head:8265",
        "RAY_JOB_SUBMISSION_ID": "id",
    }


def test_arguments_without_a_command_give_way_to_the_script():
    template = {"spec": {"containers": [{"name": "a", "args": ["y"]}]}}
    pod = submitter(submitterPodTemplate=template)["spec"]["template"]["spec"]
    assert "ray job submit" in pod["containers"][0]["args"][0]


def test_what_is_submitted_over_http_has_no_amounts_below_zero():
    made = submission(valid(rayjob(submissionMode="HTTPMode", entrypointNumCpus=-1)), "id")
    assert made.body() == {"entrypoint": "python job.py", "submission_id": "id"}


def test_the_entrypoint_goes_over_http_as_it_was_written():
    made = submission(valid(rayjob(submissionMode="HTTPMode", entrypoint=" a && b\n")), "id")
    assert made.entrypoint == " a && b\n"


def test_settings_have_kuberays_variables_and_defaults():
    assert RaySettings.from_environment({"TZ": ""}) == RaySettings()
    settings = RaySettings.from_environment(
        {
            "TZ": "",
            "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": "60",
            "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS": "70",
            "DELETE_RAYJOB_CR_AFTER_JOB_FINISHES": "True",
            "ENABLE_LOGIN_SHELL": "true",
            "CLUSTER_DOMAIN": "example.com",
            "ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE": "true",
        }
    )
    assert settings == RaySettings(
        status_check_timeout=timedelta(seconds=60),
        transition_grace_period=timedelta(seconds=70),
        delete_finished_jobs=True,
        login_shell=True,
        cluster_domain="example.com",
        head_cluster_ip_service=True,
    )


@pytest.mark.parametrize("value", ["", "0", "-5", "x", "1.5", "٣", "9" * 30])
def test_a_time_that_is_no_positive_number_is_ignored(value: str):
    environment = {"TZ": "", "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": value}
    assert RaySettings.from_environment(environment) == RaySettings()


def test_the_submitter_is_sized_by_a_container_of_its_name():
    sizes = {"requests": {"memory": "512Mi"}}
    template = {"spec": {"containers": [{"name": "ray-job-submitter", "resources": sizes}]}}
    (default,) = submitter()["spec"]["template"]["spec"]["containers"]
    (sized,) = submitter(submitterPodTemplate=template)["spec"]["template"]["spec"]["containers"]
    assert sized == default | {"resources": sizes}


def test_the_submitter_takes_from_the_head_what_image_and_admission_need():
    raw = job_manifest()
    pod = raw["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod |= {
        "imagePullSecrets": [{"name": "regcred"}],
        "securityContext": restricted,
        "schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}],
        "nodeSelector": {"gpu": "h100"},
        "initContainers": [{"name": "fetch"}],
        "volumes": [{"name": "data"}],
    }
    pod["containers"][0] |= {
        "imagePullPolicy": "Always",
        "securityContext": {"allowPrivilegeEscalation": False},
        "ports": [{"containerPort": 1, "hostPort": 1}],
        "envFrom": [{"secretRef": {"name": "of-the-head"}}],
    }
    spec = raw["spec"]
    made = submitter(rayClusterSpec=spec["rayClusterSpec"])["spec"]["template"]["spec"]
    assert made.keys() == {"containers", "imagePullSecrets", "securityContext", "restartPolicy"}
    assert made["securityContext"] == restricted
    [container] = made["containers"]
    own = {"name", "image", "resources", "command", "args", "env"}
    assert container.keys() == own | {"imagePullPolicy", "securityContext"}
    beside = sidecar(rayClusterSpec=spec["rayClusterSpec"])
    assert beside["securityContext"] == {"allowPrivilegeEscalation": False}


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

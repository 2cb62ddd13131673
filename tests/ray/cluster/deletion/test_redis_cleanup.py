"""The cleanup Job's body, and what its program does."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.kube.resources import JOBS, PODS
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.redis_cleanup import cleanup_job_name
from controller.ray.head import OUR_JOBS
from controller.ray.settings import RaySettings
from controller.runtime.kind import FailedCreate
from controller.runtime.plan import Create, FailedCreates
from controller.testing.reads import FakeReads
from tests.ray.cluster.deletion import redis
from tests.ray.cluster.deletion.redis import JOB, cleanup_job, redis_cluster
from tests.ray.cluster.support import NOW, plan, pod, reads, with_meta


def job(raw: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """The Job of a deleted cluster whose pods are gone."""
    kind = RayClusterKind(RaySettings(**settings))
    made = plan(reads(redis_cluster(raw, deleted=1), listed=True), kind)
    [[create]] = made.stages
    assert isinstance(create, Create)
    return dict(create.body)


def head(raw: dict[str, Any] | None = None) -> dict[str, Any]:
    made = plan(reads(redis_cluster(raw)))
    return next(
        dict(write.body)
        for stage in made.stages
        for write in stage
        if isinstance(write, Create) and write.target.scope == "head"
    )


def ray_container(body: dict[str, Any]) -> dict[str, Any]:
    [container] = body["spec"]["template"]["spec"]["containers"]
    return container


def rich_template() -> dict[str, Any]:
    """A head with everything that the Job must keep or drop."""
    raw = redis.with_options()
    template = raw["spec"]["headGroupSpec"]["template"]
    template["metadata"] = {
        "labels": {"ray.io/node-type": "mine", "app.kubernetes.io/created-by": "me", "team": "a"},
        "annotations": {"note": "b"},
        "finalizers": ["example.com/hold"],
    }
    ray = template["spec"]["containers"][0]
    ray |= {
        "envFrom": [{"secretRef": {"name": "more"}}],
        "livenessProbe": {"exec": {"command": ["true"]}},
        "startupProbe": {"exec": {"command": ["true"]}},
        "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}},
        "securityContext": {"runAsNonRoot": True},
    }
    template["spec"]["containers"].append({"name": "proxy", "image": "proxy"})
    template["spec"]["initContainers"] = [
        {"name": "fetch", "image": "fetch"},
        {"name": "wait-for-tls-ip-san", "image": "wait"},
    ]
    template["spec"] |= {"nodeSelector": {"disk": "ssd"}, "restartPolicy": "Always"}
    return raw


def test_the_job_is_tried_once_and_not_for_long():
    body = job()
    assert (body["apiVersion"], body["kind"]) == ("batch/v1", "Job")
    spec = body["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 300)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_in_a_deletion_in_the_foreground_it_has_no_owner_and_goes_by_itself():
    going = redis_cluster(deleted=1, finalizers=("foregroundDeletion",))
    kept = reads(going, listed=True)
    [[create]] = plan(kept).stages
    assert isinstance(create, Create)
    assert create.body["metadata"]["ownerReferences"] == []
    assert create.body["spec"]["ttlSecondsAfterFinished"] == 600
    assert "ttlSecondsAfterFinished" not in job()["spec"]
    mine = with_meta(
        redis.cleanup_job(owner_uid=None), annotations=create.body["metadata"]["annotations"]
    )
    assert plan(kept.add(JOBS, mine)).stages == ()
    assert "somebody else" not in str(plan(kept).status)


def test_a_long_name_keeps_its_end():
    assert cleanup_job_name("a" * 49 + "-b12") == "a" * 45 + "-b12-redis-cleanup"
    assert cleanup_job_name("aaaa-" + "b" * 48) == "r" + "b" * 48 + "-redis-cleanup"


def test_labels_are_the_heads_but_for_the_node_type_which_no_template_changes():
    body, model = job(rich_template()), head(rich_template())
    wanted = model["metadata"]["labels"] | {"ray.io/node-type": "redis-cleanup"}
    pod = body["spec"]["template"]["metadata"]
    assert pod["labels"] == wanted
    assert body["metadata"]["labels"].keys() == wanted.keys()
    assert pod["annotations"] == body["metadata"]["annotations"]
    assert wanted["team"] == "a"
    assert "finalizers" not in body["spec"]["template"]["metadata"]
    assert body["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "uid-of-example"


def test_no_template_hides_the_job_from_whoever_watches_jobs():
    body = job(rich_template())
    key, _, value = OUR_JOBS.partition("=")
    assert body["metadata"]["labels"][key] == value
    assert body["spec"]["template"]["metadata"]["labels"][key] == "me"


def test_only_the_ray_container_runs_without_probes_and_with_little():
    container = ray_container(job(rich_template()))
    assert container["name"] == "ray-head"
    assert not {"livenessProbe", "readinessProbe", "startupProbe"} & container.keys()
    little = {"cpu": "200m", "memory": "256Mi"}
    assert container["resources"] == {"requests": little, "limits": little}
    assert container["securityContext"] == {"runAsNonRoot": True}
    assert container["envFrom"] == [{"secretRef": {"name": "more"}}]


def heads_alone() -> dict[str, Any]:
    """A head with all that keeps a pod waiting, or that another pod cannot have."""
    raw = redis.with_options()
    raw["spec"]["enableInTreeAutoscaling"] = True
    template = raw["spec"]["headGroupSpec"]["template"]
    template["metadata"] = {
        "labels": {
            "kueue.x-k8s.io/queue-name": "lq",
            "scheduling.x-k8s.io/pod-group": "gang",
            "volcano.sh/queue-name": "q",
            "kai.scheduler/queue": "q",
        },
        "annotations": {
            "kueue.x-k8s.io/podset-required-topology": "cloud.example.com/rack",
            "scheduling.k8s.io/group-name": "gang",
            "yunikorn.apache.org/task-groups": "[]",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        },
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    template["spec"] |= {
        "schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}],
        "readinessGates": [{"conditionType": "example.com/ready"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "affinity": {"podAffinity": {required: [{"topologyKey": "rack"}]}},
        "schedulerName": "volcano",
        "nodeName": "node-1",
        "hostname": "head",
        "activeDeadlineSeconds": 10,
        "initContainers": [{"name": "fetch", "image": "fetch"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "disk", "hostPath": {"path": "/mnt/disk", "type": "Directory"}},
            {"name": "elsewhere", "secret": {"secretName": "of-the-proxy"}},
        ],
    }
    template["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 6379, "hostPort": 6379}],
        "lifecycle": {"postStart": {"exec": {"command": ["notify"]}}},
        "resources": {"claims": [{"name": "gpu"}], "limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "disk", "mountPath": "/disk"},
        ],
        "volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}],
        "env": [
            {
                "name": "PROXY_CPUS",
                "valueFrom": {"resourceFieldRef": {"containerName": "proxy", "resource": "cpu"}},
            }
        ],
    }
    return raw


def test_nothing_of_the_head_keeps_the_job_waiting():
    meta = job(heads_alone())["spec"]["template"]["metadata"]
    pod = job(heads_alone())["spec"]["template"]["spec"]
    assert pod.keys() == {"containers", "restartPolicy"}
    container = pod["containers"][0]
    own = {"name", "image", "command", "args", "env", "resources", "terminationMessagePolicy"}
    assert container.keys() == own
    assert "PROXY_CPUS" not in {each["name"] for each in container["env"]}
    assert all(key.startswith(("ray.io/", "app.kubernetes.io/")) for key in meta["labels"])
    assert meta["annotations"] == {
        "ray.io/external-storage-namespace": "uid-of-example",
        "manta.dev/cluster-uid": "uid-of-example",
    }
    assert job(heads_alone())["metadata"]["labels"].keys() == meta["labels"].keys()


def test_what_the_way_to_redis_needs_is_taken():
    raw = redis.with_options()
    template = raw["spec"]["headGroupSpec"]["template"]
    needed = {
        "imagePullSecrets": [{"name": "regcred"}],
        "tolerations": [{"key": "pool", "operator": "Equal", "value": "ray"}],
        "nodeSelector": {"pool": "ray"},
        "securityContext": {"runAsUser": 1000},
        "serviceAccountName": "reads-redis",
        "priorityClassName": "high",
        "hostNetwork": True,
        "hostUsers": False,
        "dnsPolicy": "ClusterFirstWithHostNet",
    }
    tls = {"name": "tls", "secret": {"secretName": "redis-tls"}}
    store = {"name": "store", "csi": {"driver": "secrets-store.csi.k8s.io"}}
    nodes: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    template["metadata"] = {
        "labels": {"sidecar.istio.io/inject": "false", "example.com/cost-center": "7"},
        "annotations": {"vault.hashicorp.com/role": "ray", "example.com/ns": "x", "note": "b"},
    }
    referring = {"fieldRef": {"fieldPath": "metadata.annotations['example.com/ns']"}}
    template["spec"] |= needed | {
        "affinity": {"nodeAffinity": nodes, "podAntiAffinity": {}},
        "volumes": [tls, store, {"name": "tmp", "emptyDir": {}}],
    }
    template["spec"]["containers"][0] |= {
        "env": [{"name": "NAMESPACE", "valueFrom": referring}],
        "volumeMounts": [
            {"name": "tls", "mountPath": "/tls", "subPath": "ca"},
            {"name": "store", "mountPath": "/secrets"},
        ],
    }
    body = job(raw, pod_annotations={"admin": "yes"})["spec"]["template"]
    pod, [container] = body["spec"], body["spec"]["containers"]
    assert needed.items() <= pod.items()
    assert pod["affinity"] == {"nodeAffinity": nodes}
    assert pod["volumes"] == [tls, store]
    assert [mount["name"] for mount in container["volumeMounts"]] == ["tls", "store"]
    assert body["metadata"]["annotations"].keys() == {
        "admin",
        "vault.hashicorp.com/role",
        "example.com/ns",
        "ray.io/external-storage-namespace",
        "manta.dev/cluster-uid",
    }
    assert template["metadata"]["labels"].items() <= body["metadata"]["labels"].items()


# -- the program -----------------------------------------------------------------------------------


class Cleaning:
    """Runs the program with a double for Ray."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: dict[str, Any] = {}
        self.works = True
        self._patch = monkeypatch
        utils = ModuleType("ray._private.gcs_utils")
        utils.cleanup_redis_storage = self._clean  # type: ignore[attr-defined]
        for module in (ModuleType("ray"), ModuleType("ray._private"), utils):
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def _clean(self, **arguments: Any) -> bool:
        self.called = arguments
        return self.works

    def run(self, body: dict[str, Any], **variables: str) -> int:
        for name, value in {"RAY_external_storage_namespace": "ns", **variables}.items():
            self._patch.setenv(name, value)
        [line] = ray_container(body)["args"]
        assert "\n" not in line
        python, flag, program = shlex.split(line)
        assert (python, flag) == ("python", "-c")
        assert not set("$`!") & set(line), "nothing for the shell to expand"
        with pytest.raises(SystemExit) as ended:
            exec(program, {})
        return int(ended.value.code or 0)


@pytest.fixture
def cleaning(monkeypatch: pytest.MonkeyPatch) -> Cleaning:
    monkeypatch.delenv("REDIS_PASSWORD", raising=False)
    return Cleaning(monkeypatch)


def test_the_password_variable_wins_and_the_user_name_is_passed_only_where_there_is_one(
    cleaning: Cleaning,
):
    raw = redis.with_options(redisUsername={"value": "me"})
    variables = {"RAY_REDIS_ADDRESS": "redis://u:old@r:1", "REDIS_PASSWORD": "new"}
    cleaning.run(job(raw), REDIS_USERNAME="me", **variables)
    assert (cleaning.called["username"], cleaning.called["password"]) == ("me", "new")
    cleaning.run(job(), REDIS_USERNAME="me", **variables)
    assert "username" not in cleaning.called, "older versions of Ray know no user names"


def test_bash_and_python_read_a_password_of_any_characters(tmp_path: Path):
    """Run the container's command as the kubelet does, with a double for Ray."""
    double = tmp_path / "ray" / "_private" / "gcs_utils.py"
    double.parent.mkdir(parents=True)
    double.write_text("def cleanup_redis_storage(**given): print(ascii(given)); return True")
    container = ray_container(job())
    password = """p@ss $word "x" 'y' `z` \\ !"""
    done = subprocess.run(
        [*container["command"], *container["args"]],
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(tmp_path),
            "RAY_REDIS_ADDRESS": "redis:6379",
            "REDIS_PASSWORD": password,
            "RAY_external_storage_namespace": "ns",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert ast.literal_eval(done.stdout)["password"] == password


# -- a cleanup whose pod is refused --------------------------------------------------------------


FLOOR = "the pod is forbidden: minimum memory usage per Container is 1Gi, but request is 256Mi"
FULL = "the pod is forbidden: exceeded quota: team, requested: pods=1, limited: pods=0"
RESTRICTED = 'the pod is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def deleted(
    seconds: float = 60,
    message: str = "",
    *,
    ago: float = 1,
    suspend: bool = False,
    terminating: bool = False,
    **status: Any,
) -> FakeReads:
    """A cluster deleted so long ago, whose Job has existed since then and has no pod."""
    job = cleanup_job(terminating=terminating)
    job = replace(job, spec=replace(job.spec, suspend=suspend))
    created = rfc3339(NOW - timedelta(seconds=seconds))
    job = with_meta(job, creation_timestamp=created)
    job = replace(job, status=replace(job.status, active=0, **status))
    kept = reads(redis_cluster(deleted=seconds), listed=True).add(JOBS, job)
    if message:
        kept.failed_creates["uid-of-job"] = FailedCreate(NOW - timedelta(seconds=ago), message)
    return kept


def message_of(kept: FakeReads) -> str:
    patch = plan(kept).status
    assert patch is not None
    [ready] = [each for each in patch.wanted["conditions"] if each["type"] == "Ready"]
    return ready["message"]


def test_events_of_a_job_without_a_pod_are_read_after_some_seconds_and_then_seldom():
    assert plan(deleted()).lookups == (FailedCreates("default", "uid-of-job", NOW),)
    young = plan(deleted(2))
    assert (young.lookups, young.requeue_after) == ((), 3)
    known = plan(deleted(60, FULL, ago=10))
    assert (known.lookups, known.requeue_after) == ((), 20)
    near = plan(deleted(295, FULL, ago=10))
    assert (near.lookups, near.requeue_after) == ((), 5), "the deadline comes first"


def test_a_job_that_lacks_no_pod_is_not_asked():
    assert plan(deleted(failed=1)).lookups == (), "it had its pod"
    assert plan(deleted(suspend=True)).lookups == ()
    assert plan(deleted(terminating=True)).lookups == ()
    its_pod = pod(
        f"{JOB}-x",
        "headgroup",
        labels={"ray.io/node-type": "redis-cleanup"},
        owner_uid="uid-of-job",
    )
    assert plan(deleted().add(PODS, its_pod)).lookups == ()


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (FULL, "ask for a larger quota"),
        (FLOOR, "ask for another LimitRange: this Job always has 200m of CPU and 256Mi of memory"),
        (
            RESTRICTED,
            (
                "set the securityContext in spec.headGroupSpec.template, and delete this Job, "
                "which is then created anew"
            ),
        ),
    ],
)
def test_what_refuses_the_pod_is_told_with_what_can_be_done(refusal: str, remedy: str):
    said = message_of(deleted(60, refusal))
    assert f"waiting for Job {JOB} to remove its state from Redis, until " in said
    assert said.endswith(f": Job {JOB} cannot create its pod: {refusal}; {remedy}")


def test_the_last_event_names_it_too():
    for kept in (deleted(300, FULL), deleted(60, FULL, conditions=failed())):
        commit = plan(kept).commit
        assert commit is not None
        assert commit.on_success is not None
        assert "exceeded quota: team" in commit.on_success.note
        assert "external storage namespace" in commit.on_success.note


def failed() -> Any:
    return cleanup_job("Failed").status.conditions

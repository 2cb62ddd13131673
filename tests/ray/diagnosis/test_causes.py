"""First causes: each way of not being ready, told from what Kubernetes itself writes about it."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.ray.api.validation.cluster import INVALID_SPEC_REASON
from controller.ray.diagnosis.pod import diagnose_pod
from controller.ray.diagnosis.reasons import REASONS, Cause, Severity
from controller.runtime.executor import FAILED_READ
from tests.ray.cluster.support import NOW, pod

SINCE = "2026-08-20T09:58:00Z"
LONG_AGO = "2026-08-20T09:30:00Z"
IMAGE = "docker.io/rayproject/ray:2.99.0"

State = dict[str, Any]


def container(name: str = "ray-worker", *, ready: bool = False, **state: Any) -> State:
    last = state.pop("last", {})
    restarts = state.pop("restarts", 0)
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }


def waiting(reason: str, message: str = "", **more: Any) -> State:
    return container(waiting={"reason": reason, "message": message}, **more)


def ended(code: int, reason: str, message: str = "") -> State:
    times = {"startedAt": "2026-08-20T09:57:00Z", "finishedAt": "2026-08-20T09:58:30Z"}
    return {"exitCode": code, "reason": reason, "message": message, **times}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> State:
    said = {"reason": reason, "message": message}
    return {"type": kind, "status": status, "lastTransitionTime": SINCE, **said}


def not_ready(*names: str, since: str = SINCE) -> list[State]:
    message = f"containers with unready status: [{' '.join(names or ('ray-worker',))}]"
    said = {"reason": "ContainersNotReady", "message": message, "lastTransitionTime": since}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    both = [{"type": kind, "status": "False", **said} for kind in ("Ready", "ContainersReady")]
    return [scheduled, *both]


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    conditions = [condition("PodScheduled", "False", reason, message)]
    return {"phase": "Pending", "node": "", "conditions": conditions}


def on_node(*containers: State, phase: str = "Pending", **more: Any) -> dict[str, Any]:
    conditions = more.pop("conditions", not_ready(*(each["name"] for each in containers)))
    return {"phase": phase, "containerStatuses": list(containers), "conditions": conditions} | more


def pod_in(group: str, state: dict[str, Any]) -> Pod:
    """A pod whose conditions are these and no others."""
    rest = {name: value for name, value in state.items() if name != "conditions"}
    raw = msgspec.to_builtins(pod("p", group, **rest))
    raw["status"]["conditions"] = state.get("conditions", [])
    return msgspec.convert(raw, Pod)


PULL_FAILED = (
    f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": '
    f"{IMAGE}: not found"
)
NO_GPU = (
    "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: "
    "3 No preemption victims found for incoming pod."
)
NO_GPU_NOR_CLAIMS = NO_GPU.replace("preemption:", "no new claims to deallocate, preemption:")
NO_CLAIM = '0/3 nodes are available: persistentvolumeclaim "gcs" not found. not found'
UNBOUND = (
    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 "
    "nodes are available: 3 Preemption is not helpful for scheduling."
)
BACK_OFF = "back-off 2m40s restarting failed container=ray-worker pod=p_default(8a1c9d4e)"
LOW_MEMORY = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi. Container "
    "ray-worker was using 3Gi, request is 1Gi, has larger consumption of memory. "
)
NO_COMMAND = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    'runc create failed: unable to start container process: exec: "/bin/bash": stat /bin/bash: '
    "no such file or directory: unknown"
)
RUNNING = {"running": {"startedAt": "2026-08-20T09:58:30Z"}}
WAITING_SINCE = {"running": {"startedAt": LONG_AGO}}

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "image not found": (
        on_node(waiting("ErrImagePull", PULL_FAILED)),
        "ImagePullBackOff",
        (
            f"pod p cannot pull the image of container ray-worker: {PULL_FAILED}; correct the "
            "image of ray-worker in the template of group workers, or set imagePullSecrets, "
            "since 2026-08-20T09:58:00Z"
        ),
    ),
    "image pull backing off": (
        on_node(waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"')),
        "ImagePullBackOff",
        f'pod p cannot pull the image of container ray-worker: Back-off pulling image "{IMAGE}"',
    ),
    "image that is no name": (
        on_node(waiting("InvalidImageName", "couldn't parse image name: invalid reference format")),
        "InvalidImageName",
        "pod p cannot start container ray-worker: couldn't parse image name: invalid reference",
    ),
    "image that must be there": (
        on_node(waiting("ErrImageNeverPull", f'Container image "{IMAGE}" is not present')),
        "ErrImageNeverPull",
        f'pod p cannot start container ray-worker: Container image "{IMAGE}" is not present',
    ),
    "secret missing": (
        on_node(waiting("CreateContainerConfigError", 'secret "redis-password" not found')),
        "CreateContainerConfigError",
        (
            'pod p cannot start container ray-worker: secret "redis-password" not found; create '
            "the Secret redis-password in namespace default"
        ),
    ),
    "config map missing": (
        on_node(waiting("CreateContainerConfigError", 'configmap "env" not found')),
        "CreateContainerConfigError",
        "create the ConfigMap env in namespace default",
    ),
    "key missing": (
        on_node(
            waiting(
                "CreateContainerConfigError",
                "couldn't find key password in Secret default/redis-password",
            )
        ),
        "CreateContainerConfigError",
        "couldn't find key password in Secret default/redis-password",
    ),
    "container not created": (
        on_node(waiting("CreateContainerError", "context deadline exceeded")),
        "CreateContainerError",
        "pod p cannot start container ray-worker: context deadline exceeded",
    ),
    "command missing": (
        on_node(waiting("RunContainerError", NO_COMMAND)),
        "RunContainerError",
        f"{NO_COMMAND}; correct command and args of ray-worker in the template of group workers",
    ),
    "crash loop": (
        on_node(
            waiting("CrashLoopBackOff", BACK_OFF, last=ended(1, "Error"), restarts=5),
            phase="Running",
        ),
        "CrashLoopBackOff",
        (
            "pod p crashes: container ray-worker last ended with exit code 1 (Error) at "
            "2026-08-20T09:58:30Z; see `kubectl logs p -c ray-worker --previous`"
        ),
    ),
    "between two crashes": (
        on_node(
            container(last=ended(1, "Error", "no such address\n"), restarts=1, **RUNNING),
            phase="Running",
        ),
        "CrashLoopBackOff",
        "ended with exit code 1 (Error) at 2026-08-20T09:58:30Z, saying: no such address; see",
    ),
    "just crashed": (
        on_node(container(terminated=ended(2, "Error")), phase="Running"),
        "CrashLoopBackOff",
        "pod p crashes: container ray-worker last ended with exit code 2 (Error)",
    ),
    "init container crashes": (
        {
            "phase": "Pending",
            "conditions": not_ready(),
            "initContainerStatuses": [
                container(
                    "fetch",
                    waiting={"reason": "CrashLoopBackOff", "message": BACK_OFF},
                    last=ended(1, "Error"),
                    restarts=3,
                )
            ],
            "containerStatuses": [waiting("PodInitializing")],
        },
        "CrashLoopBackOff",
        "pod p crashes: init container fetch last ended with exit code 1 (Error)",
    ),
    "no node fits": (
        unscheduled(NO_GPU),
        "Unschedulable",
        (
            "pod p cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu, "
            "since 2026-08-20T09:58:00Z"
        ),
    ),
    "no node fits, and another plugin says so too": (
        unscheduled(NO_GPU_NOR_CLAIMS),
        "Unschedulable",
        (
            "pod p cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu, "
            "since 2026-08-20T09:58:00Z"
        ),
    ),
    "claim missing": (
        unscheduled(NO_CLAIM),
        "PersistentVolumeClaimNotFound",
        "pod p needs PersistentVolumeClaim gcs, which does not exist; create it",
    ),
    "claim unbound": (
        unscheduled(UNBOUND),
        "PersistentVolumeClaimUnbound",
        (
            "pod p waits for a volume: 0/3 nodes are available: pod has unbound immediate "
            "PersistentVolumeClaims; see `kubectl describe pvc`"
        ),
    ),
    "gated": (
        unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"),
        "SchedulingGated",
        "pod p waits until its scheduling gates are removed: Scheduling is blocked",
    ),
    "evicted": (
        {"phase": "Failed", "reason": "Evicted", "message": LOW_MEMORY},
        "Evicted",
        "pod p has ended (Evicted): The node was low on resource: memory. Threshold quantity",
    ),
    "refused by the kubelet": (
        {
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000",
        },
        "PodFailed",
        "pod p has ended (OutOfcpu): Pod was rejected: Node didn't have enough resource: cpu",
    ),
    "failed": (
        on_node(container(terminated=ended(3, "Error")), phase="Failed", conditions=[]),
        "PodFailed",
        (
            "pod p has ended: container ray-worker ended with exit code 3 (Error) at "
            "2026-08-20T09:58:30Z; it is replaced"
        ),
    ),
    "succeeded": (
        on_node(container(terminated=ended(0, "Completed")), phase="Succeeded", conditions=[]),
        "PodSucceeded",
        "pod p has ended; it is replaced",
    ),
    "node lost": (
        on_node(
            container(ready=True, **RUNNING),
            phase="Running",
            conditions=[condition("PodScheduled", "True"), condition("Ready", "False")],
        ),
        "NodeLost",
        (
            "pod p is on node node-1, which no longer reports (NodeLost); repair the node, or "
            "delete its Node object so that the pod is replaced, since 2026-08-20T09:58:00Z"
        ),
    ),
    "node unknown": (
        on_node(
            container(ready=True, **RUNNING),
            phase="Running",
            conditions=[
                condition(
                    "Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status."
                )
            ],
        ),
        "NodeLost",
        "pod p is on node node-1, which no longer reports (NodeLost)",
    ),
    "deleted on a lost node": (
        on_node(
            container(ready=True, **RUNNING),
            phase="Running",
            reason="NodeLost",
            message="Node node-1 which was running pod p is unresponsive",
            conditions=[condition("Ready", "False")],
            terminating=True,
            ends="2026-08-20T10:00:20Z",
        ),
        "NodeLost",
        "pod p was deleted and cannot terminate: it is on node node-1, which no longer reports",
    ),
    "does not disappear": (
        on_node(container(**RUNNING), phase="Running", terminating=True),
        "PodStuckTerminating",
        (
            "pod p was deleted and does not disappear from node node-1; if the node is dead, "
            "delete its Node object; if the pod certainly no longer runs, `kubectl delete pod p "
            "--grace-period=0 --force`, since 2026-08-20T09:59:00Z"
        ),
    ),
    "waits for the head": (
        {
            "phase": "Pending",
            "conditions": not_ready(),
            "initContainerStatuses": [container("wait-gcs-ready", **RUNNING)],
            "containerStatuses": [waiting("PodInitializing")],
        },
        "WaitingForHead",
        "pod p waits for the head, since 2026-08-20T09:58:30Z",
    ),
    "does not reach the head": (
        {
            "phase": "Pending",
            "conditions": not_ready(since=LONG_AGO),
            "initContainerStatuses": [container("wait-gcs-ready", **WAITING_SINCE)],
            "containerStatuses": [waiting("PodInitializing")],
        },
        "HeadUnreachable",
        (
            "pod p does not reach the head, which is ready: wait-gcs-ready still waits; look at "
            "network policies and DNS between them, since 2026-08-20T09:30:00Z"
        ),
    ),
    "starts": (
        on_node(container(**RUNNING), phase="Running"),
        "ContainersNotReady",
        "pod p is not ready: containers with unready status: [ray-worker]",
    ),
    "never passes its probe": (
        on_node(container(**RUNNING), phase="Running", conditions=not_ready(since=LONG_AGO)),
        "ReadinessProbeFailing",
        (
            "pod p is running, but the readiness probe of container ray-worker fails; see "
            "`kubectl describe pod p` and its log, since 2026-08-20T09:30:00Z"
        ),
    ),
    "is being started": (
        on_node(waiting("ContainerCreating")),
        "PodPending",
        "pod p is Pending (ContainerCreating), not ready yet",
    ),
    "is being started for long": (
        on_node(waiting("ContainerCreating"), conditions=not_ready(since=LONG_AGO)),
        "ContainersNotCreated",
        (
            "pod p is still ContainerCreating on node node-1: a large image, or a volume whose "
            "Secret, ConfigMap or claim is missing; see `kubectl describe pod p`, "
            "since 2026-08-20T09:30:00Z"
        ),
    ),
    "just made": (
        {"phase": "Pending", "node": "", "conditions": []},
        "PodPending",
        "pod p is Pending, not ready yet",
    ),
}


def cause_of(group: str, state: dict[str, Any], *, head_ready: bool = True) -> Cause:
    found = diagnose_pod(pod_in(group, state), NOW, head_ready=head_ready)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_pod_that_is_not_ready_says_why(case: str):
    state, reason, words = CASES[case]
    found = cause_of("workers", state)
    assert found.reason.name == reason
    assert words in found.detail
    part = "node node-1" if reason == "NodeLost" else "group workers"
    assert found.message.startswith(f"{part}: pod p ")


def test_a_ready_pod_is_in_no_trouble_and_neither_is_one_that_goes_in_time():
    assert diagnose_pod(pod("p"), NOW, head_ready=True) is None
    going = pod("p", phase="Failed", terminating=True, ends="2026-08-20T09:59:40Z")
    assert diagnose_pod(going, NOW, head_ready=True) is None


def test_a_kubelet_that_comes_back_late_is_given_time_to_remove_the_pod():
    containers = [container(terminated=ended(1, "Error") | {"finishedAt": "2026-08-20T09:59:45Z"})]
    going = pod("p", phase="Failed", terminating=True, containers=containers)
    assert diagnose_pod(going, NOW, head_ready=True) is None


def test_a_finalizer_that_holds_a_pod_is_named():
    made = pod("p", terminating=True, ready=False)
    held = msgspec.structs.replace(made.metadata, finalizers=("example.com/backup",))
    found = diagnose_pod(msgspec.structs.replace(made, metadata=held), NOW, head_ready=True)
    assert found is not None
    assert "is held by finalizer example.com/backup" in found.detail


LIMITED = {"name": "ray-worker", "resources": {"limits": {"cpu": "1", "memory": "2Gi"}}}


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ([LIMITED], "its memory limit is 2Gi"),
        ([{"name": "ray-worker"}], "it has no memory limit of its own"),
    ],
)
@pytest.mark.parametrize(
    "state",
    [
        on_node(
            waiting("CrashLoopBackOff", BACK_OFF, last=ended(137, "OOMKilled"), restarts=4),
            phase="Running",
        ),
        on_node(container(last=ended(137, "OOMKilled"), restarts=1, **RUNNING), phase="Running"),
        on_node(container(terminated=ended(137, "OOMKilled")), phase="Failed", conditions=[]),
    ],
)
def test_a_container_without_memory_says_its_limit_and_how_to_raise_it(
    state: dict[str, Any], spec: list[State], limit: str
):
    raw = msgspec.to_builtins(pod_in("workers", state))
    raw["spec"]["containers"] = spec
    found = diagnose_pod(msgspec.convert(raw, Pod), NOW, head_ready=True)
    assert found is not None
    assert found.reason.name == "OOMKilled"
    assert found.detail == (
        "pod p ran out of memory: container ray-worker ended with exit code 137 (OOMKilled) at "
        f"2026-08-20T09:58:30Z; {limit}; raise resources.limits.memory of ray-worker in the "
        "template of group workers"
    )


def test_the_heads_causes_name_the_heads_template():
    found = cause_of("headgroup", CASES["image not found"][0])
    assert found.component == "head"
    assert found.blocks_head
    assert "in spec.headGroupSpec.template" in found.detail


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (("ray-head",), "ray-head, which checks dashboard and GCS, fails"),
        (("istio-proxy",), "istio-proxy fails"),
        (("istio-proxy", "ray-head"), "ray-head, which checks dashboard and GCS, fails"),
    ],
)
def test_only_the_probe_of_rays_container_checks_dashboard_and_gcs(
    failing: tuple[str, ...], said: str
):
    state = on_node(
        *(container(name, **RUNNING) for name in failing),
        phase="Running",
        conditions=not_ready(since=LONG_AGO),
    )
    assert f"probe of container {said}" in cause_of("headgroup", state).detail


def test_what_a_node_wrote_in_an_unknown_way_costs_only_the_time():
    state = CASES["no node fits"][0]
    odd = state | {"conditions": [state["conditions"][0] | {"lastTransitionTime": "yesterday"}]}
    assert cause_of("workers", odd).since is None


def test_a_worker_blames_the_way_to_the_head_only_if_the_head_is_ready():
    state, _, _ = CASES["does not reach the head"]
    assert cause_of("workers", state, head_ready=False).reason.name == "WaitingForHead"


MANUAL = Path(__file__).parents[3] / "docs" / "reasons.md"
PROSPECT = {
    Severity.ACTION_REQUIRED: "needs help",
    Severity.TRANSIENT: "may pass",
    Severity.IN_PROGRESS: "takes time",
}


def test_the_manual_has_the_table_of_reasons():
    wanted = [
        f"| `{reason.name}` | {PROSPECT[reason.severity]} | {reason.meaning} | {reason.remedy} |"
        for reason in REASONS
    ]
    lines = MANUAL.read_text().splitlines()
    header = "| Reason of `Ready` | Without action | What it means | What to do |"
    rows = takewhile(lambda line: line.startswith("|"), lines[lines.index(header) + 2 :])
    assert list(rows) == wanted


def test_reasons_from_outside_of_the_table_are_in_it():
    names = {reason.name for reason in REASONS}
    assert {FAILED_READ, INVALID_SPEC_REASON} < names


def test_every_reason_is_a_sentence_and_says_what_to_do():
    for reason in REASONS:
        assert reason.meaning.endswith("."), reason.name
        assert reason.remedy.endswith("."), reason.name
        assert "|" not in reason.meaning + reason.remedy, reason.name

"""The life of a simulated pod, without an API server: time is a number here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller.apimachinery.conditions import rfc3339
from devcluster.nodes.components import NodeSettings
from devcluster.nodes.lifecycle import (
    Behaviour,
    Bind,
    Evict,
    Outcome,
    Remove,
    ReportStatus,
    Rest,
    Step,
    Wait,
    next_step,
    timer,
)
from devcluster.nodes.pods import KubeletPod, status_patch
from devcluster.nodes.simulated_kubelet import Stopwatches
from devcluster.nodes.transitions import StepContext

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = NodeSettings()


def pod(*, node: str = "manta-node-0", annotations: Any = None, **spec: Any) -> dict[str, Any]:
    containers = spec.pop("containers", [{"name": "main", "image": "ray:1"}])
    return {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u-1",
            "annotations": {f"sim.manta.dev/{k}": v for k, v in (annotations or {}).items()},
        },
        "spec": {"nodeName": node, "containers": containers, **spec},
        "status": {"phase": "Pending"},
    }


@dataclass
class Life:
    """Plays kubelet and API server for one pod: steps are carried out, waits pass at once."""

    body: dict[str, Any]
    settings: NodeSettings = SETTINGS
    now: float = 0.0
    node_lost: bool = False
    removed: bool = False
    evicted: bool = False
    seen: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stopwatches = Stopwatches(self)

    def time(self) -> float:
        return self.now

    @property
    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    @property
    def pod(self) -> KubeletPod:
        return msgspec.convert(self.body, KubeletPod)

    def step(self) -> Step:
        current = self.pod
        waited = timer(current, node_lost=self.node_lost)
        here = StepContext(
            now=self.wall,
            elapsed=self.stopwatches.elapsed("u-1", waited, self.wall),
            pod_ip="10.244.0.1",
            host_ip="172.18.0.2",
            node_lost=self.node_lost,
        )
        behaviour = Behaviour.of(current.metadata.annotations, self.settings)
        return next_step(current, behaviour, self.settings, here)

    def carry_out(self, step: Step) -> None:
        match step:
            case ReportStatus(status):
                old = self.pod
                assert status_patch(old.status, status), "a report that changes nothing"
                self.body["status"] = msgspec.to_builtins(status)
                self.follow(old)
                self.seen.append((self.now, self.summary()))
            case Wait(seconds):
                assert seconds > 0
                self.now += seconds
            case Bind():
                self.body["spec"]["nodeName"] = "manta-node-0"
            case Remove():
                self.removed = True
            case Evict():
                self.evicted = True
            case Rest():
                pass

    def live(self, *, until: float = 1000.0) -> Life:
        """Take steps until nothing is due before `until`."""
        while True:
            step = self.step()
            if isinstance(step, Rest) or self.removed or self.evicted:
                return self
            if isinstance(step, Wait) and self.now + step.seconds > until:
                self.now = until
                return self
            self.carry_out(step)

    def delete(self, *, grace: int = 30) -> None:
        self.body["metadata"]["deletionTimestamp"] = rfc3339(self.wall + timedelta(seconds=grace))
        self.body["metadata"]["deletionGracePeriodSeconds"] = grace

    def follow(self, old: KubeletPod) -> None:
        after = timer(self.pod, node_lost=self.node_lost)
        if after != timer(old, node_lost=self.node_lost):
            self.stopwatches.begin("u-1", after)

    def lose_node(self) -> None:
        self.node_lost = True
        self.stopwatches.begin("u-1", timer(self.pod, node_lost=True))

    def annotate(self, **annotations: str) -> None:
        named = {f"sim.manta.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
        self.body["metadata"]["annotations"].update(named)

    def summary(self) -> str:
        """Phase, what each container does, and whether the pod is ready."""
        status = self.pod.status
        parts = [status.phase]
        for container in status.in_order:
            state = container.state
            if state.waiting:
                parts.append(state.waiting.reason)
            elif state.running:
                parts.append(f"running{container.restart_count or ''}")
            elif state.terminated:
                parts.append(f"exit {state.terminated.exit_code}")
        return " ".join([*parts, *(["ready"] if status.is_true("Ready") else [])])


def conditions(life: Life) -> dict[str, str]:
    return {c.type: c.status for c in life.pod.status.conditions}


def test_a_pod_is_created_then_runs_then_becomes_ready() -> None:
    life = Life(pod()).live()
    assert life.seen == [
        (0.0, "Pending ContainerCreating"),
        (1.0, "Running running"),
        (2.0, "Running running ready"),
    ]
    status = life.pod.status
    assert conditions(life) == {
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
        "PodScheduled": "True",
    }
    assert (status.pod_ip, status.host_ip) == ("10.244.0.1", "172.18.0.2")
    assert [ip.ip for ip in status.pod_ips] == ["10.244.0.1"]
    assert status.start_time == "2026-01-01T00:00:00Z"
    (container,) = status.container_statuses
    assert container.container_id.startswith("sim://")
    assert container.image_id.startswith("ray:1@sha256:")
    assert container.started


def test_init_containers_run_one_after_the_other_before_the_containers() -> None:
    init = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]
    life = Life(pod(initContainers=init)).live()
    assert life.seen == [
        (0.0, "Pending PodInitializing PodInitializing PodInitializing"),
        (1.0, "Pending running PodInitializing PodInitializing"),
        (1.5, "Pending exit 0 running PodInitializing"),
        (2.0, "Running exit 0 exit 0 running"),
        (3.0, "Running exit 0 exit 0 running ready"),
    ]


def test_a_sidecar_keeps_running_and_delays_no_other_container() -> None:
    init = [
        {"name": "sidecar", "image": "x", "restartPolicy": "Always"},
        {"name": "a", "image": "x"},
    ]
    life = Life(pod(initContainers=init)).live()
    assert [summary for _, summary in life.seen] == [
        "Pending PodInitializing PodInitializing PodInitializing",
        "Pending running running PodInitializing",
        "Running running exit 0 running",
        "Running running exit 0 running ready",
    ]


def test_one_container_crashes_again_and_again_while_the_others_run_on() -> None:
    two = [{"name": "main", "image": "x"}, {"name": "beside", "image": "x"}]
    given = {"outcome": "crash", "container": "beside", "ready-delay": "0.25"}
    life = Life(pod(containers=two, annotations=given)).live(until=50.0)
    assert life.seen == [
        (0.0, "Pending ContainerCreating ContainerCreating"),
        (1.0, "Running running running"),
        (1.25, "Running running running ready"),
        (2.0, "Running running running1"),
        (2.25, "Running running running1 ready"),
        (3.0, "Running running CrashLoopBackOff"),
        (13.0, "Running running running2"),
        (13.25, "Running running running2 ready"),
        (14.0, "Running running CrashLoopBackOff"),
        (34.0, "Running running running3"),
        (34.25, "Running running running3 ready"),
        (35.0, "Running running CrashLoopBackOff"),
    ]
    unready = [c for c in life.pod.status.conditions if c.type == "Ready"]
    assert [c.message for c in unready] == ["containers with unready status: [beside]"]


def test_one_container_that_is_not_restarted_ends_once_while_the_others_run_on() -> None:
    two = [{"name": "main", "image": "x"}, {"name": "beside", "image": "x"}]
    given = {"outcome": "crash", "container": "beside", "ready-delay": "0.25"}
    life = Life(pod(containers=two, annotations=given, restartPolicy="Never")).live(until=50.0)
    assert life.seen[-1] == (2.0, "Running running exit 1")


def test_the_pause_after_a_crash_has_a_cap() -> None:
    settings = NodeSettings(crash_back_off=10.0, crash_back_off_cap=15.0, run_time=1.0)
    life = Life(pod(annotations={"outcome": "crash", "ready-delay": "9"}), settings)
    life.live(until=100.0)
    starts = [moment for moment, summary in life.seen if "running" in summary]
    assert starts == [1.0, 2.0, 13.0, 29.0, 45.0, 61.0, 77.0, 93.0]


@pytest.mark.parametrize(
    ("outcome", "exit_code", "policy", "ending"),
    [
        ("crash", "3", "Never", "Failed exit 3"),
        ("crash", "3", "OnFailure", "Running CrashLoopBackOff"),
        ("crash", "3", "Always", "Running CrashLoopBackOff"),
        ("crash", "0", "OnFailure", "Succeeded exit 0"),
        ("succeed", "3", "Never", "Succeeded exit 0"),
        ("succeed", "3", "OnFailure", "Succeeded exit 0"),
        ("succeed", "3", "Always", "Running CrashLoopBackOff"),
        ("fail", "3", "Never", "Failed exit 3"),
        ("fail", "3", "OnFailure", "Failed exit 3"),
        ("fail", "3", "Always", "Failed exit 3"),
    ],
)
def test_outcome_and_restart_policy_decide_the_ending(
    outcome: str, exit_code: str, policy: str, ending: str
) -> None:
    told = {"outcome": outcome, "exit-code": exit_code}
    life = Life(pod(annotations=told, restartPolicy=policy)).live(until=5.0)
    assert life.summary() == ending


def test_a_failed_pod_says_why_it_is_not_ready() -> None:
    life = Life(pod(annotations={"outcome": "fail"}, restartPolicy="Always")).live()
    assert life.pod.status.reason == "Evicted"
    ready = life.pod.status.condition("Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "PodFailed")


def test_an_image_that_cannot_be_pulled_is_found_out_twice() -> None:
    life = Life(pod(annotations={"outcome": "image-pull-error"})).live()
    assert life.seen == [
        (0.0, "Pending ContainerCreating"),
        (1.0, "Pending ErrImagePull"),
        (11.0, "Pending ImagePullBackOff"),
    ]


def test_a_pod_whose_image_appears_starts() -> None:
    life = Life(pod(annotations={"outcome": "image-pull-error"})).live()
    life.annotate(outcome="run")
    assert life.live().summary() == "Running running ready"


def test_the_image_of_the_first_init_container_is_the_one_that_is_missing() -> None:
    told = {"outcome": "image-pull-error"}
    life = Life(pod(annotations=told, initContainers=[{"name": "a", "image": "x"}])).live()
    assert life.summary() == "Pending ImagePullBackOff PodInitializing"


def test_a_pod_that_is_never_ready_runs() -> None:
    life = Life(pod(annotations={"outcome": "never-ready"})).live()
    assert life.summary() == "Running running"


@pytest.mark.parametrize(
    ("told", "spec", "reason"),
    [
        ({"outcome": "hang-pending"}, {}, "Unschedulable"),
        ({}, {"schedulingGates": [{"name": "quota"}]}, "SchedulingGated"),
    ],
)
def test_a_pod_without_a_node_says_why(told: Any, spec: Any, reason: str) -> None:
    life = Life(pod(node="", annotations=told, **spec)).live()
    scheduled = life.pod.status.condition("PodScheduled")
    assert scheduled is not None
    assert (scheduled.status, scheduled.reason) == ("False", reason)
    assert not life.pod.spec.node_name
    assert life.step() == Rest()


def test_the_grace_period_bounds_the_termination() -> None:
    life = Life(pod(), NodeSettings(termination_delay=60.0)).live()
    life.delete(grace=5)
    life.live()
    assert life.removed
    assert life.now == 7.0


def test_a_terminating_pod_that_never_ran_just_goes() -> None:
    life = Life(pod())
    life.delete()
    life.live()
    assert life.removed
    assert life.seen == []


def test_a_terminating_pod_of_a_lost_node_hangs() -> None:
    life = Life(pod()).live()
    life.lose_node()
    life.delete()
    life.live()
    assert life.step() == Rest()
    assert not life.removed


def test_conditions_of_others_are_carried_along_and_transition_times_stay() -> None:
    life = Life(pod())
    life.body["status"]["conditions"] = [{"type": "example.com/gate", "status": "True"}]
    life.live()
    assert conditions(life)["example.com/gate"] == "True"
    scheduled = life.pod.status.condition("PodScheduled")
    ready = life.pod.status.condition("Ready")
    assert scheduled is not None
    assert ready is not None
    assert scheduled.last_transition_time == "2026-01-01T00:00:00Z"
    assert ready.last_transition_time == "2026-01-01T00:00:02Z"


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf"])
def test_an_annotation_that_is_no_length_of_time_counts_as_absent(text: str) -> None:
    given = {"sim.manta.dev/start-delay": text, "sim.manta.dev/fail-after": text}
    behaviour = Behaviour.of(given, SETTINGS)
    assert behaviour == Behaviour.of(None, SETTINGS)
    assert behaviour.start_delay == 1.0
    assert behaviour.outcome is Outcome.RUN


def test_an_unknown_outcome_counts_as_run() -> None:
    assert Behaviour.of({"sim.manta.dev/outcome": "dance"}, SETTINGS).outcome is Outcome.RUN


def test_a_wait_is_over_a_rounding_error_before_its_end() -> None:
    life = Life(pod()).live(until=0.5)
    life.now = 1.0 - 1e-12
    assert isinstance(life.step(), ReportStatus)


@pytest.mark.parametrize(("policy", "exit_code"), [("Never", 1), ("OnFailure", 0)])
def test_a_container_that_ended_for_good_beside_others_stays_so(policy: str, exit_code: int):
    both = [{"name": "main", "image": "ray:1"}, {"name": "beside", "image": "ray:1"}]
    life = Life(pod(containers=both, restartPolicy=policy)).live()
    beside = life.body["status"]["containerStatuses"][1]
    end = {"exitCode": exit_code, "reason": "Completed", "finishedAt": rfc3339(life.wall)}
    beside |= {"ready": False, "state": {"terminated": end}}
    for condition in life.body["status"]["conditions"]:
        if condition["type"] in {"Ready", "ContainersReady"}:
            condition["status"] = "False"
    life.now += 60
    before = life.pod.status
    assert isinstance(life.live().step(), Rest)
    assert life.pod.status == before

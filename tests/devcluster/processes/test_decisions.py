"""The pure decisions of the process kubelet: pauses, verdicts of probes, phases and conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from devcluster.nodes import containers
from devcluster.nodes.pods import (
    ReportedCondition,
    ReportedContainerStatus,
    ReportedPodStatus,
)
from devcluster.processes.container import RestartBackoff
from devcluster.processes.container_process import ProbeThreshold
from devcluster.processes.specification import ContainerSpecification, SpecifiedPod

Statuses = tuple[ReportedContainerStatus, ...]
NOW = "2026-01-01T00:00:00Z"


def test_the_first_restart_is_immediate_and_pauses_double():
    backoff = RestartBackoff(10, 300)
    pauses: list[float] = []
    for _ in range(8):
        backoff = backoff.after_run(1.0)
        pauses.append(backoff.pause)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_is_forgiven():
    backoff = RestartBackoff(10, 300, crashes=7)
    assert backoff.after_run(601.0).pause == 0
    assert backoff.after_run(599.0).pause == 300


def results(tally: ProbeThreshold, text: str) -> list[bool | None]:
    verdicts: list[bool | None] = []
    for letter in text:
        tally = tally.after(letter == "+")
        verdicts.append(tally.verdict)
    return verdicts


@pytest.mark.parametrize(
    ("successes", "failures", "seen", "verdicts"),
    [
        (1, 3, "+", [True]),
        (1, 3, "--+", [None, None, True]),
        (1, 3, "+--+---", [True, True, True, True, True, True, False]),
        (2, 1, "+-++", [None, False, False, True]),
    ],
)
def test_results_become_a_verdict_in_a_row(
    successes: int, failures: int, seen: str, verdicts: list[bool | None]
):
    assert results(ProbeThreshold(successes, failures), seen) == verdicts


def container(name: str, **more: Any) -> ContainerSpecification:
    return msgspec.convert({"name": name, **more}, ContainerSpecification)


WAITING = containers.waiting(container("x"), "ContainerCreating")
STARTED = containers.running(WAITING, "process://1", "i", 0, NOW)
RUNNING = replace(STARTED, started=True, ready=True)
UNREADY = replace(RUNNING, ready=False)
DONE, BROKEN = containers.terminated(RUNNING, 0, NOW), containers.terminated(RUNNING, 1, NOW)
LOOPING = containers.blocked(BROKEN, containers.CRASH_LOOP, "")
INITIALIZED = replace(DONE, ready=True)


def status_of(
    init: Statuses,
    main: Statuses,
    *,
    is_over: bool = False,
    policy: str = "Always",
    reason: str = "",
    sidecar: bool = False,
) -> ReportedPodStatus:
    spec: dict[str, Any] = {
        "restartPolicy": policy,
        "initContainers": [
            {"name": f"i{n}", "restartPolicy": "Always" if sidecar else None}
            for n in range(len(init))
        ],
        "containers": [{"name": f"c{n}"} for n in range(len(main))],
    }
    status = ReportedPodStatus(
        init_container_statuses=tuple(replace(s, name=f"i{n}") for n, s in enumerate(init)),
        container_statuses=tuple(replace(s, name=f"c{n}") for n, s in enumerate(main)),
    )
    pod = msgspec.convert({"spec": spec}, SpecifiedPod)
    return containers.composed(pod, status, NOW, is_over=is_over, reason=reason)


@pytest.mark.parametrize(
    ("init", "main", "more", "phase"),
    [
        ((), (WAITING,), {}, "Pending"),
        ((), (RUNNING, WAITING), {}, "Pending"),
        ((), (RUNNING,), {}, "Running"),
        ((), (LOOPING,), {}, "Running"),
        ((), (BROKEN,), {}, "Running"),
        ((), (DONE, RUNNING), {}, "Running"),
        ((RUNNING,), (WAITING,), {}, "Pending"),
        ((LOOPING,), (WAITING,), {}, "Pending"),
        ((INITIALIZED,), (RUNNING,), {}, "Running"),
        ((RUNNING,), (RUNNING,), {"sidecar": True}, "Running"),
        ((WAITING,), (WAITING,), {"sidecar": True}, "Pending"),
        # Not final while anything may still run, even if nothing will be restarted.
        ((RUNNING,), (DONE,), {"sidecar": True, "policy": "Never"}, "Running"),
        ((), (RUNNING,), {"reason": "DeadlineExceeded"}, "Running"),
        ((), (DONE, DONE), {"is_over": True}, "Succeeded"),
        ((), (DONE, BROKEN), {"is_over": True}, "Failed"),
        ((), (DONE,), {"is_over": True, "reason": "DeadlineExceeded"}, "Failed"),
        ((BROKEN,), (DONE,), {"is_over": True, "sidecar": True}, "Succeeded"),
        ((BROKEN,), (WAITING,), {"is_over": True}, "Failed"),
        ((), (LOOPING,), {"is_over": True}, "Failed"),
    ],
)
def test_phases(init: Statuses, main: Statuses, more: dict[str, Any], phase: str):
    assert status_of(init, main, **more).phase == phase


def condition(status: ReportedPodStatus, kind: str) -> ReportedCondition:
    found = status.condition(kind)
    assert found is not None
    return found


def conditions(status: ReportedPodStatus) -> dict[str, tuple[str, str | None]]:
    return {c.type: (c.status, c.reason) for c in status.conditions}


def test_a_pod_is_ready_when_all_containers_are():
    assert conditions(status_of((), (RUNNING,)))["Ready"] == ("True", None)
    status = status_of((), (RUNNING, UNREADY))
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    assert conditions(status)["ContainersReady"] == ("False", "ContainersNotReady")
    assert condition(status, "Ready").message == "containers with unready status: [c1]"


def test_an_unready_sidecar_counts():
    status = status_of((UNREADY,), (RUNNING,), sidecar=True)
    assert condition(status, "Ready").message == "containers with unready status: [i0]"
    assert conditions(status_of((INITIALIZED,), (RUNNING,)))["Ready"] == ("True", None)


def test_what_is_not_initialised_is_named():
    found = condition(status_of((INITIALIZED, RUNNING), (WAITING,)), "Initialized")
    assert (found.status, found.reason) == ("False", "ContainersNotInitialized")
    assert found.message == "containers with incomplete status: [i1]"
    assert conditions(status_of((INITIALIZED,), (RUNNING,)))["Initialized"] == ("True", None)


def test_an_ended_pod_says_so():
    done = conditions(status_of((), (DONE,), is_over=True))
    assert done["Ready"] == done["ContainersReady"] == ("False", "PodCompleted")
    assert done["Initialized"] == ("True", "PodCompleted")
    assert conditions(status_of((), (BROKEN,), is_over=True))["Ready"] == ("False", "PodFailed")


def test_an_end_moves_to_the_last_state():
    ended = LOOPING.last_state.terminated
    assert ended is not None
    assert ended.exit_code == 1
    again = containers.running(LOOPING, "process://2", "i", 1, NOW)
    assert again.last_state == LOOPING.last_state

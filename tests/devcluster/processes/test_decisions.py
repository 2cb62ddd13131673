"""The pure decisions of the process kubelet: pauses, verdicts of probes, phases and conditions."""

from __future__ import annotations

import msgspec
import pytest

from controller.devcluster.nodes import containers
from controller.devcluster.nodes.pods import ReportedPodStatus
from controller.devcluster.processes import pod_status as states
from controller.devcluster.processes.container import RestartBackoff
from controller.devcluster.processes.pod_status import PodFacts, pod_status
from controller.devcluster.processes.probes import ProbeThreshold
from controller.devcluster.processes.specification import ContainerSpecification, SpecifiedPod

NOW = "2026-01-01T00:00:00Z"


def test_the_first_restart_is_immediate_and_pauses_double():
    backoff = RestartBackoff(10, 300)
    pauses = []
    for _ in range(8):
        backoff = backoff.after_run(1.0)
        pauses.append(backoff.pause)
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_is_forgiven():
    backoff = RestartBackoff(10, 300, crashes=7)
    assert backoff.after_run(601.0).pause == 0
    assert backoff.after_run(599.0).pause == 300


def results(tally: ProbeThreshold, text: str) -> list[bool | None]:
    verdicts = []
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
def test_results_become_a_verdict_in_a_row(successes, failures, seen, verdicts):
    assert results(ProbeThreshold(successes, failures), seen) == verdicts


def container(name: str, **more) -> ContainerSpecification:
    return msgspec.convert({"name": name, **more}, ContainerSpecification)


WAITING = containers.waiting(container("x"), "ContainerCreating")
RUNNING = states.probed(states.running(WAITING, "u", "i", 0, NOW), started=True, ready=True)
UNREADY = states.probed(RUNNING, started=True, ready=False)
DONE, BROKEN = containers.terminated(RUNNING, 0, NOW), containers.terminated(RUNNING, 1, NOW)
LOOPING = states.waiting(BROKEN, containers.CRASH_LOOP, "")
INITIALIZED = states.initialized(DONE)


def status_of(init, main, *, is_over=False, policy="Always", reason="", sidecar=False):
    spec = {
        "restartPolicy": policy,
        "initContainers": [
            {"name": f"i{n}", "restartPolicy": "Always" if sidecar else None}
            for n in range(len(init))
        ],
        "containers": [{"name": f"c{n}"} for n in range(len(main))],
    }
    facts = PodFacts(
        start_time=NOW,
        host_ip="10.0.0.1",
        pod_ip="10.0.0.2",
        is_over=is_over,
        has_sandbox=True,
        reason=reason,
        message=reason,
        init=tuple(msgspec.structs.replace(s, name=f"i{n}") for n, s in enumerate(init)),
        main=tuple(msgspec.structs.replace(s, name=f"c{n}") for n, s in enumerate(main)),
    )
    return pod_status(
        msgspec.convert({"spec": spec}, SpecifiedPod), ReportedPodStatus(), facts, NOW
    )


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
def test_phases(init, main, more, phase):
    assert status_of(init, main, **more).phase == phase


def test_a_pod_that_is_ended_as_a_whole_says_why_when_it_has_ended():
    assert status_of((), (RUNNING,), reason="DeadlineExceeded").reason == ""
    assert status_of((), (DONE,), reason="DeadlineExceeded", is_over=True).reason


def conditions(status: ReportedPodStatus) -> dict[str, tuple[str, str | None]]:
    return {c.type: (c.status, c.reason) for c in status.conditions}


def test_a_pod_is_ready_when_all_containers_are():
    assert conditions(status_of((), (RUNNING,)))["Ready"] == ("True", None)
    status = status_of((), (RUNNING, UNREADY))
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    assert conditions(status)["ContainersReady"] == ("False", "ContainersNotReady")
    assert status.condition("Ready").message == "containers with unready status: [c1]"


def test_an_unready_sidecar_counts():
    status = status_of((UNREADY,), (RUNNING,), sidecar=True)
    assert status.condition("Ready").message == "containers with unready status: [i0]"
    assert conditions(status_of((INITIALIZED,), (RUNNING,)))["Ready"] == ("True", None)


def test_what_is_not_initialised_is_named():
    condition = status_of((INITIALIZED, RUNNING), (WAITING,)).condition("Initialized")
    assert (condition.status, condition.reason) == ("False", "ContainersNotInitialized")
    assert condition.message == "containers with incomplete status: [i1]"
    assert conditions(status_of((INITIALIZED,), (RUNNING,)))["Initialized"] == ("True", None)


def test_an_ended_pod_says_so():
    done = conditions(status_of((), (DONE,), is_over=True))
    assert done["Ready"] == done["ContainersReady"] == ("False", "PodCompleted")
    assert done["Initialized"] == ("True", "PodCompleted")
    assert conditions(status_of((), (BROKEN,), is_over=True))["Ready"] == ("False", "PodFailed")


def test_an_end_moves_to_the_last_state():
    assert LOOPING.last_state.terminated.exit_code == 1
    again = states.running(LOOPING, "u", "i", 1, NOW)
    assert again.last_state == LOOPING.last_state
    assert again.container_id != RUNNING.container_id

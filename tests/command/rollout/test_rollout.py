"""`manta rollout` on plain values: what is meant, how far it is, and how it is printed."""

from __future__ import annotations

import argparse
import io
import json
from typing import Any

import pytest

from controller.__main__ import main
from controller.command.cli import parser
from controller.command.connection import CommandFailed
from controller.command.rollout import Report, follow, parse_workload, sentence
from controller.command.rollout_kinds import (
    GroupProgress,
    RayClusterFleetRollout,
    RayClusterRollout,
    RolloutProgress,
)
from controller.kube.errors import ConfigurationError, NotSent, OutcomeUnknown
from controller.ray.api import labels
from tests.ray.cluster.support import manifest

ANNOTATION = labels.UPGRADE_STRATEGY


def stored(*conditions: dict[str, Any], observed: int = 3, **status: Any) -> dict[str, Any]:
    raw = manifest()
    raw["metadata"] |= {"generation": 3}
    raw["spec"]["upgradeStrategy"] = {"type": "RollingUpdate"}
    raw["status"] = {"observedGeneration": observed, "conditions": list(conditions)} | status
    return raw


def upgrading(status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": "Upgrading", "status": status, "reason": reason, "message": message}


def ready(status: str, reason: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "reason": reason, "message": ""}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a"], "write raycluster/NAME"),
        (["raycluster/"], "write raycluster/NAME"),
        (["raycluster", "a", "b"], "write raycluster/NAME"),
        (["raycluster/a", "raycluster/b"], "write raycluster/NAME"),
        (["raycluster/.."], "write raycluster/NAME"),
        (["raycluster/a?b"], "write raycluster/NAME"),
        (["raycluster", "a/status"], "write raycluster/NAME"),
        (["raycluster", "a%2Fb"], "write raycluster/NAME"),
        (["rayclusters.apps/a"], "'rayclusters.apps' cannot be rolled out"),
        (["deployment/a"], "'deployment' cannot be rolled out; raycluster and rayclusterfleet can"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(words: list[str], message: str):
    with pytest.raises(ConfigurationError, match=message):
        parse_workload(words, "team")


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([], "complete"),
        ([upgrading("False", "Complete")], "complete"),
        ([upgrading("False", "Complete"), ready("True", "AllPodsReady")], "complete"),
        ([upgrading("False", "Complete"), ready("False", "PodNotReady")], "rolling"),
        ([ready("False", "PodNotReady")], "rolling"),
        ([upgrading("False", "Complete"), ready("False", "Suspended")], "complete"),
        ([upgrading("True", "Rolling", "2 of 3")], "rolling"),
        ([upgrading("True", "RayDoesNotAnswer")], "rolling"),
        ([upgrading("Unknown", "RayDoesNotAnswer")], "rolling"),
        ([upgrading("True", "Paused")], "paused"),
        ([upgrading("True", "ProgressDeadlineExceeded")], "failed"),
        ([upgrading("True", "IncompatibleVersions")], "failed"),
        ([upgrading("False", "HeadNeedsFaultTolerance")], "failed"),
        ([{"type": "PodsUpToDate", "status": "False", "message": "old"}], "rolling"),
        ([{"type": "Ready", "status": "False", "reason": "InvalidRayClusterSpec"}], "failed"),
    ],
)
def test_how_far_a_rollout_is_follows_from_its_conditions(
    conditions: list[dict[str, Any]], state: str
):
    assert RayClusterRollout().progress(stored(*conditions)).state == state


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([upgrading("False", "UpToDate"), ready("True", "AllClustersReady")], "complete"),
        ([upgrading("False", "UpToDate"), ready("False", "Suspended")], "complete"),
        ([upgrading("False", "UpToDate"), ready("False", "ClustersNotReady")], "rolling"),
        ([upgrading("True", "Rolling"), ready("True", "AllClustersReady")], "rolling"),
        ([upgrading("Unknown", "Paused")], "paused"),
        ([upgrading("True", "ProgressDeadlineExceeded")], "failed"),
        ([ready("False", "InvalidRayClusterFleetSpec")], "failed"),
        ([{"type": "ChangesHeld", "status": "True", "message": "odd"}], "failed"),
    ],
)
def test_how_far_a_fleet_is_follows_from_its_conditions(
    conditions: list[dict[str, Any]], state: str
):
    assert RayClusterFleetRollout().progress(stored(*conditions)).state == state
    unseen = stored(*conditions, observed=2)
    assert RayClusterFleetRollout().progress(unseen).state == "unobserved"


def test_a_fleet_is_paused_and_resumed_by_its_strategy():
    kind = parse_workload(["rayclusterfleets.manta.dev/a"], "team").kind
    obj: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"replicas": 2}}
    assert not kind.is_paused(obj)
    paused = kind.with_pause(obj, paused=True)
    assert kind.is_paused(paused)
    assert paused["spec"] == {"replicas": 2, "strategy": {"paused": True}}
    assert not kind.is_paused(kind.with_pause(paused, paused=False))


def test_a_fleet_has_no_history_and_says_what_to_do():
    with pytest.raises(CommandFailed, match="apply its earlier manifest"):
        RayClusterFleetRollout().templates_of({"metadata": {"name": "a"}})


def test_an_edit_that_nobody_has_seen_is_waited_for():
    found = RayClusterRollout().progress(stored(upgrading("False", "Complete"), observed=2))
    assert found.state == "unobserved"
    assert RayClusterRollout().progress(stored() | {"status": None}).state == "unobserved"


def test_the_groups_are_read_from_the_status_if_it_has_them():
    groups = [{"name": "a", "desired": 3, "updated": 1, "ready": 3, "outdated": 2}, {"desired": ""}]
    raw = stored(upgrading("True", "Rolling"), upgrade={"groups": groups})
    found = RayClusterRollout().progress(raw)
    assert found.groups == (GroupProgress("a", 3, 1, 3, 2), GroupProgress())


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (RolloutProgress("unobserved"), 'Waiting for raycluster "a" spec update to be observed...'),
        (
            RolloutProgress("rolling", "w-1 is being drained", (GroupProgress("g", 3, 1, 3, 2),)),
            'Waiting for raycluster "a" rollout to finish: w-1 is being drained...',
        ),
        (
            RolloutProgress("paused", "1 left"),
            (
                'raycluster "a" is paused: 1 left; resume it with '
                "`manta rollout resume raycluster/a -n team`"
            ),
        ),
        (RolloutProgress("failed", "no"), 'raycluster "a" cannot be rolled out: no'),
        (RolloutProgress("complete", "all"), 'raycluster "a" successfully rolled out'),
    ],
)
def test_progress_is_reported_in_kubectls_words(progress: RolloutProgress, text: str):
    assert sentence(parse_workload(["raycluster/a"], "team"), progress) == text


def test_the_field_is_paused_and_resumed_with_its_other_settings():
    raw = manifest()
    raw["spec"]["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}
    kind = RayClusterRollout()
    paused = kind.with_pause(raw, paused=True)
    wanted = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "paused": True}}
    assert paused["spec"]["upgradeStrategy"] == wanted
    assert kind.is_paused(paused)
    assert not kind.is_paused(kind.with_pause(paused, paused=False))
    assert not kind.is_paused(raw)


@pytest.mark.parametrize(
    "text", ["RollingUpdate", '{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}']
)
def test_the_annotation_is_paused_and_resumed_where_it_asks_for_the_update(text: str):
    raw = manifest()
    raw["metadata"]["annotations"] = {ANNOTATION: text, "other": "kept"}
    kind = RayClusterRollout()
    paused = kind.with_pause(raw, paused=True)
    assert kind.is_paused(paused)
    assert paused["metadata"]["annotations"]["other"] == "kept"
    assert paused["spec"] == raw["spec"]
    assert not kind.is_paused(kind.with_pause(paused, paused=False))


@pytest.mark.parametrize("text", ["RollingUpdate", '{"type":"RollingUpdate"}'])
def test_where_field_and_annotation_say_the_same_they_still_do_when_paused(text: str):
    raw = manifest()
    raw["metadata"]["annotations"] = {ANNOTATION: text}
    raw["spec"]["upgradeStrategy"] = {"type": "RollingUpdate"}
    kind = RayClusterRollout()
    assert kind.is_paused(kind.with_pause(raw, paused=True))


@pytest.mark.parametrize(
    ("annotation", "strategy", "message"),
    [
        ("", {}, "upgradeStrategy.type is not set, so that"),
        ("", {"type": "Recreate"}, "is Recreate, so that .* set it to RollingUpdate"),
        ("Rolling", {}, "write RollingUpdate, or JSON"),
        ("RollingUpdate", {"type": "Recreate"}, "contradicts spec.upgradeStrategy.type Recreate"),
        ("", {"type": 1}, "cannot be read"),
    ],
)
def test_without_rolling_updates_nothing_is_paused_or_waited_for(
    annotation: str, strategy: dict[str, Any], message: str
):
    raw = manifest()
    raw["metadata"]["annotations"] = {ANNOTATION: annotation}
    raw["spec"]["upgradeStrategy"] = strategy
    with pytest.raises(CommandFailed, match=message):
        RayClusterRollout().with_pause(raw, paused=True)
    with pytest.raises(CommandFailed, match=message):
        RayClusterRollout().progress(raw)


class Answers:
    """A client whose reads end like this, one after the other."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = iter(answers)

    async def get_raw(self, *_: object) -> dict[str, Any]:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def followed(*answers: dict[str, Any] | Exception) -> list[str]:
    stream, workload = io.StringIO(), parse_workload(["raycluster/a"], "team")
    report = Report(workload, stream, as_json=False)
    client: Any = Answers(*answers)
    await follow(client, workload, report, watch=True, patience=0)
    return stream.getvalue().splitlines()


async def test_an_api_server_that_starts_anew_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("controller.command.rollout.INTERVAL", 0.0)
    begun, ended = stored(upgrading("True", "Rolling", "1 of 2")), stored()
    gone = NotSent("connection refused")
    assert await followed(begun, gone, gone, OutcomeUnknown("reset"), begun, ended) == [
        'Waiting for raycluster "a" rollout to finish: 1 of 2...',
        "Waiting for the API server: connection refused...",
        "Waiting for the API server: reset...",
        'Waiting for raycluster "a" rollout to finish: 1 of 2...',
        'raycluster "a" successfully rolled out',
    ]


async def test_one_that_never_answered_or_refuses_for_good_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("controller.command.rollout.INTERVAL", 0.0)
    with pytest.raises(NotSent):
        await followed(NotSent("connection refused"), stored())
    with pytest.raises(ConfigurationError):
        await followed(stored(upgrading("True", "Rolling")), ConfigurationError("no rights"))


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, pipe = Screen(), io.StringIO()
    workload = parse_workload(["raycluster/a"], "team")
    for stream in (screen, pipe):
        Report(workload, stream, as_json=False).table([("A", "BB"), ("long", "")], highlighted=1)
    assert screen.getvalue() == "\x1b[1mA      BB\x1b[0m\n\x1b[32mlong\x1b[0m\n"
    assert pipe.getvalue() == "A      BB\nlong\n"
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screen()
    Report(workload, plain, as_json=False).result("paused")
    Report(workload, plain, as_json=False).line("a", "red")
    assert plain.getvalue() == "raycluster.ray.io/a paused\na\n"


def test_programs_get_one_document():
    stream = io.StringIO()
    report = Report(parse_workload(["raycluster/a"], "team"), stream, as_json=True)
    report.line("not this")
    report.result("paused")
    assert json.loads(stream.getvalue()) == {
        "kind": "RayCluster",
        "namespace": "team",
        "object": "a",
        "result": "paused",
    }


def options_of(line: str) -> argparse.Namespace:
    return parser().parse_args(["rollout", *line.split()])


def test_the_options_are_kubectls():
    options = options_of("status raycluster/a -n team --watch=false --timeout=1m30s")
    assert (options.watch, options.timeout, options.namespace) == (False, 90.0, "team")
    options = options_of("status -w raycluster a")
    assert (options.watch, options.timeout, options.target) == (True, 0.0, ["raycluster", "a"])
    assert options_of("status --watch=true raycluster/a").watch
    assert options_of("status raycluster/a").watch
    assert options_of("undo raycluster/a --to-revision=3").revision == 3
    assert options_of("history raycluster/a --revision 3").revision == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("status raycluster/a --timeout=soon", "'soon' is not a duration such as 90m"),
        ("status raycluster/a --timeout=-1s", "is negative"),
        ("status raycluster/a --watch=perhaps", "perhaps"),
        ("undo raycluster/a --to-revision=-1", "not the number of a revision"),
        ("", "required"),
    ],
)
def test_unusable_options_are_refused(line: str, words: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["rollout", *line.split()])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err

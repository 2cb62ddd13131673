"""The options of `manta run`, `dev` and `demo`, the first line of the log, and completion."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

import controller
from controller.__main__ import main
from controller.command.cli import parser
from controller.command.cli.arguments import feature_gates
from controller.command.cli.run import settings_of
from controller.command.connection import CommandFailed
from controller.command.kinds import KindSettings
from controller.command.operator import operator_for
from controller.command.operator_deployments import split_image
from controller.command.run import announce, is_outside
from controller.kube.credentials import InClusterCredentials, StaticCredentials
from controller.kube.kubeconfig import load_credentials
from controller.ray.api import FeatureGates
from controller.runtime.settings import Settings


def test_kuberays_names_of_options_are_understood():
    line = (
        "run --metrics-addr=:9090 --health-probe-bind-address=:9091 --reconcile-concurrency=4 "
        "--watch-namespace=a,b --feature-gates=RayMultiHostIndexing=false"
    )
    options = parser().parse_args(line.split())
    settings = settings_of(options)
    assert settings.metrics_address == ":9090"
    assert settings.health_address == ":9091"
    assert settings.workers == 4
    assert settings.namespaces == ("a", "b")
    assert not feature_gates(options).enabled("RayMultiHostIndexing")


async def test_variables_of_kuberay_without_effect_are_logged_at_the_start():
    environment = {
        "ENABLE_DETERMINISTIC_HEAD_POD_NAME": "true",
        "ENABLE_WEBHOOKS": "False",
        "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "30",
        "ENABLE_LOGIN_SHELL": "true",
    }
    kinds = KindSettings.from_environment(None, environment)
    credentials = StaticCredentials("http://127.0.0.1:1")
    with capture_logs() as logs:
        async with operator_for(credentials, Settings(), user_agent="", kind_settings=kinds):
            pass
    told = [each["variable"] for each in logs if each["event"] == "variable.without_effect"]
    assert told == ["ENABLE_DETERMINISTIC_HEAD_POD_NAME", "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV"]


async def test_gates_without_effect_are_logged_and_counted_at_the_start():
    registry = CollectorRegistry()
    gates = FeatureGates.parse("RayClusterStatusConditions=false,RayCronJob=true")
    kinds = KindSettings.from_environment(gates, {})
    credentials = StaticCredentials("http://127.0.0.1:1")
    with capture_logs() as logs:
        async with operator_for(
            credentials, Settings(), user_agent="", kind_settings=kinds, registry=registry
        ):
            pass
    (line,) = [each for each in logs if each["log_level"] == "warning"]
    gate = "RayClusterStatusConditions"
    assert (line["event"], line["gate"]) == ("feature_gate.without_effect", gate)
    assert "always on" in line["reason"]
    name = "manta_feature_gate_without_effect"
    assert registry.get_sample_value(name, {"name": gate}) == 1
    assert registry.get_sample_value(name, {"name": "RayCronJob"}) is None


def test_the_help_shows_a_default_only_where_it_is_one(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "(default: 16)" in text
    assert "(default: :8080)" in text
    for nothing in ("(default: None)", "(default: )", "(default: False)"):
        assert nothing not in text


def test_a_plan_names_gates_without_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    main(["plan", "--offline", "-f", str(empty), "--feature-gates=RayClusterStatusConditions=0"])
    assert "feature gate RayClusterStatusConditions has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", None),
        ("--use-kubernetes-proxy", True),
        ("--use-kubernetes-proxy=true", True),
        ("--use-kubernetes-proxy=F", False),
    ],
)
def test_whether_dashboards_are_reached_by_the_proxy_is_said_or_left_open(
    written: str, meant: bool | None
):
    assert parser().parse_args(["run", *written.split()]).use_kubernetes_proxy is meant


def test_only_in_a_pod_dashboards_are_reached_directly(tmp_path: Path):
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "token").write_text("t")
    address = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not is_outside(InClusterCredentials(address, tmp_path))
    assert is_outside(StaticCredentials("http://127.0.0.1:1"))


def test_a_truth_value_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--use-kubernetes-proxy=maybe"])
    assert "'maybe' is neither true nor false" in capsys.readouterr().err


def test_a_take_over_that_cannot_reach_a_cluster_says_so_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    nowhere = str(tmp_path / "missing")
    assert main(["take-over", "--no-install", "--kubeconfig", nowhere, "-o", "json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["error"] in told.err
    assert nowhere in told.err


def test_an_image_needs_a_tag_because_the_chart_puts_a_colon_between():
    assert split_image("registry.example:5000/manta:1.2") == ("registry.example:5000/manta", "1.2")
    for image in ("manta", "registry.example:5000/manta", "manta@sha256:0123"):
        with pytest.raises(CommandFailed, match="REPOSITORY:TAG"):
            split_image(image)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dev --isolation shim", "--isolation shim: pods are simulated; add --ray"),
        ("dev --image rayproject/ray", "--image rayproject/ray: write NAME=PATH"),
        ("dev --image rayproject/ray=/nowhere", "/nowhere is not a folder"),
        ("demo --image a=/usr", "--image and --isolation are for the kinds whose pods are"),
        ("demo --chart a.svg", "--chart is for --kind rayservice-incremental"),
        ("demo --kind autoscaling --image a=/nowhere", "/nowhere is not a folder"),
        ("demo --kind rayjob --image a=/nowhere", "/nowhere is not a folder"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_helps(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
):
    assert main(line.split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# nothing\n", "holds 0 RayJobs; it must hold one"),
        ("kind: RayJob\n---\nkind: RayJob\n", "holds 2 RayJobs; it must hold one"),
        (
            "kind: RayJob\n---\nkind: Ingress\n",
            "holds a Ingress, and this demo takes RayJobs, ",
        ),
        ("kind: RayJob\n", "holds a RayJob without metadata.name"),
    ],
)
def test_a_demo_of_jobs_takes_one_job_and_what_it_needs(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(text)
    assert main(["demo", "--kind", "rayjob", "-f", str(manifest)]) == 2
    assert words in capsys.readouterr().err


def test_the_first_line_says_what_runs_where():
    gates = FeatureGates.parse("RayClusterFleet=true,RayCronJob=false")
    with capture_logs() as logs:
        announce(
            StaticCredentials("https://user:word@10.0.0.1:6443/k8s"),
            Settings(namespaces=("a", "b")),
            KindSettings.from_environment(gates, {}),
        )
    (line,) = logs
    assert line["event"] == "operator.starting"
    assert line["version"] == controller.__version__
    assert line["server"] == "10.0.0.1:6443"
    assert line["namespaces"] == ["a", "b"]
    assert "rayclusterfleet-controller" in line["kinds"]
    assert "raycronjob-controller" not in line["kinds"]
    assert line["feature_gates"] == {"RayClusterFleet": True, "RayCronJob": False}


async def test_the_first_line_names_the_context_by_which_a_kubeconfig_chose_the_server(
    tmp_path: Path,
):
    file = tmp_path / "config"
    file.write_text(
        "contexts: [{name: production, context: {cluster: one, user: me}}]\n"
        "clusters: [{name: one, cluster: {server: 'https://10.0.0.2:6443'}}]\n"
        "users: [{name: me, user: {token: word}}]\n"
    )
    credentials = await load_credentials(kubeconfig=str(file), context="production")
    with capture_logs() as logs:
        announce(credentials, Settings(), KindSettings())
    (line,) = logs
    assert (line["server"], line["context"]) == ("10.0.0.2:6443", "production")
    assert line["namespaces"] == "all"


ASK = {
    # the words before the last one are complete, as typed; the last one is being typed
    "bash": "source {script}; COMP_WORDS=({words}); COMP_CWORD={last}; _manta; "
    'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "zsh": "compdef() {{ : }}; source {script}; words=({words}); CURRENT={last}+1; "
    "_describe() {{ print -l -- ${{(M)found:#${{words[CURRENT]}}*}} }}; _manta",
    "fish": "source {script}; complete -C {line}",
}


@pytest.fixture(params=sorted(ASK))
def shell(request: pytest.FixtureRequest) -> str:
    if not shutil.which(request.param):
        pytest.skip(f"SKIPPED, NOT PASSED: no {request.param} on this machine")
    return request.param


@pytest.fixture
def script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", shell]) == 0
    file = tmp_path / "script"
    file.write_text(capsys.readouterr().out)
    return file


def offered(shell: str, script: Path, *typed: str) -> set[str]:
    """What the shell offers for the last word of `manta TYPED`."""
    words = ("manta", *typed)
    question = ASK[shell].format(
        script=script, words=shlex.join(words), last=len(typed), line=shlex.quote(" ".join(words))
    )
    plain = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *plain, "-c", question], capture_output=True, text=True, check=False, timeout=60
    )
    lines = (line.partition("\t")[0].partition(":")[0] for line in done.stdout.splitlines())
    return {line for line in lines if line}


def test_commands_options_and_values_are_offered(shell: str, script: Path):
    assert offered(shell, script, "sta") == {"status"}
    assert {"run", "diagnose", "hand-back", "completion"} <= offered(shell, script, "")
    assert offered(shell, script, "status", "--all") == {"--all-namespaces"}
    assert offered(shell, script, "plan", "-o", "") == {"text", "json"}
    assert offered(shell, script, "run", "--log-level", "w") == {"warning"}


def test_kinds_examples_and_the_actions_of_a_rollout_are_offered(shell: str, script: Path):
    assert "rayjob" in offered(shell, script, "why", "ray")
    assert {"raycluster", "raycluster-idle"} <= offered(shell, script, "example", "rayclu")
    assert {"pause", "undo"} <= offered(shell, script, "rollout", "")
    assert offered(shell, script, "rollout", "undo", "--to-rev") == {"--to-revision"}

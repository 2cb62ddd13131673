"""The options of `manta run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trustme
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.__main__ import main
from controller.command.cli import parser
from controller.command.cli.arguments import feature_gates
from controller.command.cli.run import settings_of
from controller.command.kinds import KindSettings
from controller.command.operator_deployments import ChangeFailed, split_image
from controller.command.run.operator import operator_for
from controller.command.run.run import is_outside
from controller.kube.credentials import InClusterCredentials, StaticCredentials
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


def test_the_help_leaves_out_gates_without_effect(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "RayCronJob (on)" in text
    assert "RayClusterMTLS (off)" in text
    assert "RayClusterStatusConditions" not in text


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
        with pytest.raises(ChangeFailed, match="REPOSITORY:TAG"):
            split_image(image)

"""The options of `manta run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trustme

from controller.__main__ import _feature_gates, _parser, _settings
from controller.command.run import is_outside
from controller.kube.credentials import StaticCredentials
from controller.kube.incluster import InClusterCredentials

if TYPE_CHECKING:
    from pathlib import Path


def test_kuberays_names_of_options_are_understood():
    line = (
        "run --metrics-addr=:9090 --health-probe-bind-address=:9091 --reconcile-concurrency=4 "
        "--watch-namespace=a,b --feature-gates=RayMultiHostIndexing=false"
    )
    options = _parser().parse_args(line.split())
    settings = _settings(options)
    assert settings.metrics_address == ":9090"
    assert settings.health_address == ":9091"
    assert settings.workers == 4
    assert settings.namespaces == ("a", "b")
    assert not _feature_gates(options).enabled("RayMultiHostIndexing")


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
    assert _parser().parse_args(["run", *written.split()]).use_kubernetes_proxy is meant


def test_only_in_a_pod_dashboards_are_reached_directly(tmp_path: Path):
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "token").write_text("t")
    address = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not is_outside(InClusterCredentials(address, tmp_path))
    assert is_outside(StaticCredentials("http://127.0.0.1:1"))


def test_a_truth_value_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        _parser().parse_args(["run", "--use-kubernetes-proxy=maybe"])
    assert "'maybe' is neither true nor false" in capsys.readouterr().err

"""The first line of the log."""

from __future__ import annotations

from structlog.testing import capture_logs

import controller
from controller.command.kinds import KindSettings
from controller.command.run.run import announce
from controller.kube.authentication.credentials import StaticCredentials
from controller.ray.api import FeatureGates
from controller.runtime.settings import Settings


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

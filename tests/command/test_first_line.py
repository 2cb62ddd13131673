"""The first line of the log."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

import controller
from controller.command.kinds import KindSettings
from controller.command.run.run import announce
from controller.kube.credentials import StaticCredentials
from controller.kube.kubeconfig import load_credentials
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

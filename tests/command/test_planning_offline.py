"""Planning needs the embedded API server only offline: the production image does not hold it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from controller.command.planning import PlanRequest, plan
from controller.kube.errors import ConfigurationError
from controller.ray.api import FeatureGates


@pytest.mark.real_time
def test_planning_does_not_load_the_embedded_cluster():
    program = "import sys, controller.command.planning; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert "controller.command.planning.offline" in done.stdout.split()
    assert "controller.devcluster" not in done.stdout


async def test_offline_without_the_embedded_cluster_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "controller.devcluster.apiserver", None)
    request = PlanRequest(
        None,
        namespace="",
        offline=True,
        feature_gates=FeatureGates(),
        kubeconfig=None,
        context=None,
    )
    with pytest.raises(ConfigurationError, match="--offline needs the embedded API server"):
        await plan(request, "text")

"""The chart sees the operators of a cluster, and refuses to install a second one beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.chart.helm import CHART, helm, needs_helm
from tests.e2e.processes import Kubectl, manta_dev, needs_kubectl

pytestmark = [pytest.mark.slow, needs_helm, needs_kubectl, pytest.mark.timeout(400)]

KUBERAY = "kuberay-operator"
MANTA = "manta-operator"


def deployment(
    chart: str, *arguments: str, name: str = "other", replicas: int = 1, release: str = "theirs"
) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": chart}
    container = {"name": "operator", "image": "operator:1", "args": arguments}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": "operators",
            "labels": labels,
            "annotations": {
                "meta.helm.sh/release-name": release,
                "meta.helm.sh/release-namespace": "operators",
            },
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def refusal(kubectl: Kubectl, *values: str, namespace: str = "default") -> str:
    """What Helm says of an installation beside what is there; empty if it would install."""
    done = helm(
        *("install", "mine", str(CHART), "--dry-run=server", "--skip-crds"),
        *("--namespace", namespace, "--kubeconfig", str(kubectl.kubeconfig)),
        *(word for value in values for word in ("--set", value)),
        check=False,
    )
    return done.stderr if done.returncode else ""


def test_a_second_operator_is_refused_unless_it_rests_is_ours_or_serves_other_namespaces(
    tmp_path: Path,
):
    with manta_dev(tmp_path, "--no-operator") as (_, kubectl):
        kubectl("create", "namespace", "operators")

        def beside(
            other: dict[str, Any], *values: str, namespace: str = "default", release: str = ""
        ) -> str:
            stdin = msgspec.json.encode(other).decode()
            kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=stdin)
            said = refusal(kubectl, *values, namespace=namespace)
            kubectl("delete", "deployment", "-n", "operators", "other", "--wait=false")
            return said

        assert refusal(kubectl) == ""
        kuberay = beside(deployment(KUBERAY))
        assert "Deployment operators/other is an operator of the same namespaces" in kuberay
        assert "manta take-over" in kuberay
        assert "uninstall it, or scale it to 0" in beside(deployment(MANTA))
        assert beside(deployment(KUBERAY), "allowOtherOperators=true") == ""
        assert beside(deployment(KUBERAY, replicas=0)) == ""
        assert beside(deployment("postgres")) == ""
        assert beside(deployment(MANTA, release="mine"), namespace="operators") == ""

        theirs = deployment(KUBERAY, "--watch-namespace", "a,b", "--v=1")
        ours = "watchNamespace={c,d}"
        assert "same namespaces" in beside(theirs)
        assert "same namespaces" in beside(theirs, "watchNamespace={b,c}", namespace="operators")
        assert beside(theirs, ours, namespace="operators") == ""
        assert "same namespaces" in beside(deployment(MANTA), ours, namespace="operators")
        # who gets no ClusterRole may not look elsewhere
        assert beside(deployment(MANTA), ours) == ""

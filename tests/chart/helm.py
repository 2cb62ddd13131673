"""Real helm, and the folders of KubeRay's charts, for the tests that have them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "manta-operator"
HELM = os.environ.get("HELM") or shutil.which("helm")
KUBERAY_CHARTS = Path(
    os.environ.get("MANTA_KUBERAY_CHARTS", ROOT.parent / "shared" / "kuberay" / "helm-chart")
)
KUBERAY_CHART = KUBERAY_CHARTS / "kuberay-operator"

needs_helm = pytest.mark.skipif(not HELM, reason="SKIP: no helm on this machine")
needs_kuberay_charts = pytest.mark.skipif(
    not (KUBERAY_CHART / "values.yaml").exists(),
    reason=f"SKIPPED, NOT PASSED: KubeRay's charts are not at {KUBERAY_CHARTS}: name KubeRay's "
    "folder `helm-chart` in MANTA_KUBERAY_CHARTS",
)


def helm(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    assert HELM
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, check=False)
    assert not (check and done.returncode), done.stderr
    return done


def rendered(
    chart: Path,
    *values: str,
    files: Sequence[Path] = (),
    release: str = "release",
    namespace: str = "ray-system",
    definitions: bool = False,
) -> list[dict[str, Any]]:
    """What `helm template` makes of a chart with these settings and files of values."""
    words = [word for value in values for word in ("--set", value)]
    words += [word for file in files for word in ("--values", str(file))]
    words += ["--include-crds"] if definitions else []
    done = helm(
        *("template", release, str(chart), "--namespace", namespace),
        *("--kube-version", "1.36", *words),
    )
    return [each for each in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if each]


def only(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found

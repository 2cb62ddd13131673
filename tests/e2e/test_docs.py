"""Every command in README and docs works: each is run here, or shown to be run by another test."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.docs.test_contributing import COMMANDS as FOR_CONTRIBUTORS
from tests.docs.tree import PAGES
from tests.e2e.pages import ON_CLUSTER, OWN_POD, WITH_RAY, commands, run_page
from tests.e2e.processes import ROOT, manta_dev, needs_kubectl

pytestmark = pytest.mark.timeout(400)

CHART = ("helm install ", "helm upgrade ")
HELM = os.environ.get("HELM") or shutil.which("helm")

RUN_ELSEWHERE = {
    "make demo": "test_demo.py runs the same command line",
    "make demo KIND=rayjob": "test_demo_of_jobs.py",
    "make demo KIND=autoscaling": "test_demos.py",
    "make demo KIND=rayservice": "test_demos.py",
    "make demo KIND=workspace": "test_demo_of_workspaces.py",
    "make demo KIND=rolling": "test_demos.py",
    "make demo KIND=drain": "test_demos.py",
    "make demo KIND=mtls": "test_demos.py",
    "make demo KIND=rayservice-incremental": "test_demos.py",
    "manta dev --ray": "test_dev_with_ray.py",
    "manta dev --image rayproject/ray=PATH": "test_demo_of_jobs.py, with another image",
    "ray job submit --address http://10.88.0.2:8265 -- python -c 'print(6 * 7)'": (
        "test_dev_with_ray.py, with the address that was printed"
    ),
    "make mutate PACKAGES=workqueue": "test_make.py, for one module of it",
    "make mutate PACKAGES=workqueue ARGS=--again": "test_make.py, with another argument",
    "make test": "it is what runs this",
    "python -m pytest tests/kaito --messages=messages.tsv": "tests that `make test` runs too",
    "python -m pytest tests/examples/test_widget.py": "a test that `make test` runs too",
    "make test LAYERS=tests/neighbours": "it runs tests that `make test` runs too",
    "manta dev": "test_kubectl.py",
    "manta dev --workspaces": "test_demo_of_workspaces.py",
    "docker build -t registry.example/manta-operator:0.1.0 .": "test_image.py reads what it builds",
    "docker push registry.example/manta-operator:0.1.0": "test_release.py reads what releases push",
    "make test-real ARGS='-k test_killed_again_and_again'": (
        "CI runs `make test-real`, tests/lab/test_lab.py tries its arguments"
    ),
    "KUBERAY_OPERATOR=~/kuberay/ray-operator/manager "
    "python -m benchmarks.side_by_side --clusters 1000": (
        "the test of the page, test_performance_page.py, for three clusters"
    ),
    "KUBERAY_OPERATOR=~/kuberay/ray-operator/manager python -m benchmarks.drains": (
        "test_drained_nodes.py, without KubeRay's operator"
    ),
    "python -m examples.kinds.widget.widget --metrics-address=0 --health-address=0": (
        "test_demo.py"
    ),
    "manta plan --all": "test_takeover.py, in the command",
    "manta plan -f examples/raycluster.yaml": "test_plan.py",
    "manta plan -f examples/rayjob-spot.yaml": "test_plan.py, without a cluster",
    "manta take-over -n ray-system --image registry.example/manta-operator:0.1.0": (
        "test_takeover.py without the chart, tests/integration/test_change_of_operators.py with it"
    ),
    "manta hand-back -n ray-system": "test_takeover.py, in another namespace",
    "manta run": "test_run.py",
    "manta debug": "test_debug.py",
    "manta diagnose": "test_diagnose.py, in virtual time",
    "manta diagnose -A -f report.tar.gz": "test_diagnose.py, in virtual time",
    "kubectl -n NAMESPACE port-forward POD 6060": "test_kubectl_verbs.py, to another pod",
    "kubectl -n NAMESPACE port-forward POD 8090": "test_kubectl_verbs.py, to another pod",
    "kubectl -n NAMESPACE exec POD -- python3 -c 'import os, signal; os.kill(1, signal.SIGUSR1)'": (
        "test_debug.py, what it runs in the pod"
    ),
    "export KUBECONFIG=~/.cache/manta/kubeconfig": "test_kubectl.py, with a file of its own",
}


def test_there_are_commands_and_all_are_known():
    found = {command for _, command in commands()}
    assert RUN_ELSEWHERE.keys() <= found
    for_contributors = {each.replace(".venv/bin/", "") for each in FOR_CONTRIBUTORS}
    unknown = [
        command
        for command in found
        if command not in RUN_ELSEWHERE
        and (OWN_POD in command or not command.startswith((*ON_CLUSTER, *CHART)))
        and command not in for_contributors
    ]
    assert unknown == []


def test_a_test_that_is_said_to_run_a_command_exists():
    names = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    told = [name for reason in RUN_ELSEWHERE.values() for name in re.findall(r"\w+\.py", reason)]
    assert told
    assert set(told) <= names


@pytest.mark.parametrize(
    "target", ["demo", "ray", "test", "test-all", "test-real", "simulate", "lint", "bench"]
)
def test_make_knows_the_targets_that_the_readme_names(target: str):
    assert f"make {target}" in (ROOT / "README.md").read_text()
    subprocess.run(["make", "-n", target], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_kubectl
def test_the_commands_of_every_page_work_in_their_order(tmp_path: Path):
    with manta_dev(tmp_path, "--workspaces") as (process, kubectl):
        for page in map(str, (page.relative_to(ROOT) for page in PAGES)):
            if page not in WITH_RAY and run_page(page, kubectl, tmp_path):
                kubectl("delete", "rayclusters", "--all", "--wait", "--timeout=80s")
        assert process.popen.poll() is None


@pytest.mark.skipif(not HELM, reason="SKIP: no helm on this machine")
def test_the_chart_can_be_rendered_with_the_values_of_every_page():
    lines = [command for _, command in commands() if command.startswith(CHART)]
    assert lines
    for line in lines:
        _, _, *arguments = shlex.split(line.replace(" --reuse-values", ""))  # a release has them
        rendered = subprocess.run(
            [str(HELM), "template", "--kube-version", "1.36", *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        assert "kind: Deployment" in rendered.stdout


def test_the_values_that_the_manual_names_are_the_charts():
    values = yaml.safe_load((ROOT / "charts" / "manta-operator" / "values.yaml").read_text())
    manual = (ROOT / "docs" / "install.md").read_text()
    rows = re.findall(r"^\| (`.+?) \|", manual, re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([\w.]+?)(?:\.\*)?`", row)]
    assert len(paths) > 10
    for path in paths:
        value = values
        for key in path.split("."):
            assert key in value, path
            value = value[key]

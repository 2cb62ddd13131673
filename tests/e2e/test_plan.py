"""`manta plan` as a process: offline, against a cluster, and with input that is no good."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.e2e.processes import ROOT, manta_dev, manta_once, needs_kubectl, until

CHART = ROOT / "charts" / "manta-operator"
CHART_TEMPLATE = CHART / "templates" / "service.yaml"
EXAMPLE = str(ROOT / "examples" / "raycluster.yaml")


@pytest.mark.slow
def test_offline_it_needs_no_cluster_and_prints_plain_text_to_a_pipe():
    done = manta_once("plan", "--offline", "-f", EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    first, *_ = done.stdout.splitlines()
    assert first.startswith("RayCluster default/example (new): ")
    assert "    + create 2 Pods of group workers: example-workers-worker-*" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_what_disruptions_would_do_stands_at_the_end():
    done = manta_once("plan", "--offline", "-f", str(ROOT / "examples" / "rayjob-spot.yaml"))
    attempt, evictions = done.stdout.splitlines()[-2:]
    assert attempt.startswith("  later: a head that is taken away ends the attempt")
    assert evictions.startswith("  later: evictions while something runs on the cluster: head")


@pytest.mark.slow
def test_as_json_it_is_data():
    done = manta_once("plan", "--offline", "-f", EXAMPLE, "-o", "json")
    (cluster,) = msgspec.json.decode(done.stdout)["clusters"]
    assert cluster["name"] == "example"
    assert {item["action"] for item in cluster["items"]} == {"create"}


@pytest.mark.slow
def test_a_manifest_that_would_be_refused_is_a_failure_that_names_the_field(tmp_path: Path):
    text = (ROOT / "examples" / "raycluster.yaml").read_text()
    manifest = tmp_path / "bad.yaml"
    manifest.write_text(text.replace("minReplicas: 0", "minReplicas: 50"))
    assert manifest.read_text() != text
    done = manta_once("plan", "--offline", "-f", str(manifest))
    assert done.returncode == 1
    assert "minReplicas" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-f", "no-such-file.yaml"], "cannot read no-such-file.yaml"),
        (["-f", str(CHART / "Chart.yaml")], "holds an object without a kind"),
        (
            ["-f", str(CHART / "crds" / "ray.io.yaml")],
            "holds none of the kinds that can be planned",
        ),
        (["-f", str(CHART_TEMPLATE)], "is not YAML"),
        (["-f", EXAMPLE, "--feature-gates", "Wings=true"], "there is no feature gate 'Wings'"),
    ],
)
def test_unusable_input_is_said_in_words(arguments: list[str], words: str):
    done = manta_once("plan", "--offline", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_is_forbidden_makes_it_fail():
    offline = ("plan", "--offline", "-f", EXAMPLE)
    assert manta_once(*offline, "--forbid", "delete", "--forbid", "replace").returncode == 0
    done = manta_once(*offline, "--forbid", "create")
    assert done.returncode == 3
    assert "forbidden, and would happen: create" in done.stderr
    assert done.stdout


@pytest.mark.slow
def test_without_a_cluster_it_points_to_offline(tmp_path: Path):
    done = manta_once("plan", "-f", EXAMPLE, KUBECONFIG="", HOME=str(tmp_path))
    assert done.returncode == 2
    assert "--offline" in done.stderr


@pytest.mark.slow
@needs_kubectl
def test_against_a_cluster_it_shows_what_an_edit_would_do(tmp_path: Path):
    with manta_dev(tmp_path) as (process, kubectl):
        kubectl("apply", "-f", EXAMPLE)
        state = ("get", "raycluster", "example", "-o", "jsonpath={.status.state}")
        until(lambda: kubectl(*state) == "ready", why=process.text)
        manifest = tmp_path / "more.yaml"
        text = (ROOT / "examples" / "raycluster.yaml").read_text()
        manifest.write_text(text.replace("replicas: 2", "replicas: 3", 1))
        done = manta_once("plan", "-f", str(manifest), "--kubeconfig", str(kubectl.kubeconfig))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "RayCluster default/example: 1 to create",
            "  the manifest changes",
            "    spec.workerGroupSpecs[workers].replicas: 2 -> 3",
            "  the operator would",
            "    + create 1 Pod of group workers: example-workers-worker-*",
        ]
        where = ("-n", "elsewhere", "--kubeconfig", str(kubectl.kubeconfig))
        done = manta_once("plan", "--all", *where)
        assert (done.returncode, done.stdout) == (0, "")
        assert "there is no object to plan for in namespace elsewhere" in done.stderr

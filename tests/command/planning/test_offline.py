"""`manta plan --offline` refuses what an API server would refuse, without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.__main__ import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "raycluster.yaml"

Container = dict[str, Any]


def no_image(_spec: dict[str, Any], container: Container) -> None:
    del container["image"]


def unknown_volume(_spec: dict[str, Any], container: Container) -> None:
    container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/a"}]


def request_above_limit(_spec: dict[str, Any], container: Container) -> None:
    container["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}


def wrong_policy(_spec: dict[str, Any], container: Container) -> None:
    container["imagePullPolicy"] = "Sometimes"


def unknown_field(spec: dict[str, Any], _container: Container) -> None:
    spec["workerGroupSpec"] = []


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (no_image, "image: Required value"),
        (unknown_volume, 'volumeMounts[0].name: Not found: "nowhere"'),
        (request_above_limit, "must be less than or equal to cpu limit"),
        (wrong_policy, 'imagePullPolicy: Unsupported value: "Sometimes"'),
        (unknown_field, "workerGroupSpec: is unknown (did you mean workerGroupSpecs?)"),
    ],
)
def test_what_an_api_server_would_refuse_is_told_and_makes_it_fail(
    mistake: Callable[[dict[str, Any], Container], None],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    mistake(spec, spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0])
    file = tmp_path / "mistaken.yaml"
    file.write_text(yaml.safe_dump(manifest))
    assert main(["plan", "--offline", "-f", str(file)]) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("issuer", ["cert-manager", "manta"])
def test_a_cluster_with_mtls_is_planned_with_its_certificates_and_without_their_contents(
    issuer: str, capsys: pytest.CaptureFixture[str]
):
    manifest = str(EXAMPLE.with_name("raycluster-mtls.yaml"))
    options = ["--feature-gates=RayClusterMTLS=true", f"--mtls-issuer={issuer}"]
    assert main(["plan", "--offline", *options, "-f", manifest]) == 0
    text = capsys.readouterr().out
    made = {line.split("create ")[1] for line in text.splitlines() if "+ create" in line}
    assert "head Pod: example-head-*" in made
    assert "1 Pod of group workers: example-workers-worker-*" in made
    secrets = {each for each in made if each.startswith("Secret: ")}
    certificates = {each for each in made if each.startswith("Certificate: ")}
    assert (len(secrets), len(certificates)) == ((3, 0) if issuer == "manta" else (0, 3))

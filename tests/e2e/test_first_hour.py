"""The first hour: wrong manifests, and what kubectl, conditions and `manta plan` say of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import Kubectl, manta_dev, manta_once, needs_kubectl, until
from tests.e2e.wrong_manifests import WRONG, Wrong
from tests.lab.control_plane import SERVERS, control_plane
from tests.lab.session import needs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONDITIONS = "jsonpath={.status.conditions[*].message}"


def written(folder: Path, wrong: Wrong) -> Path:
    file = folder / f"{wrong.name}.yaml"
    file.write_text(wrong.manifest)
    return file


@contextmanager
def real_server(folder: Path) -> Iterator[Kubectl]:
    """kubectl for a real API server that has Manta's definitions, and no operator."""
    with control_plane(folder, controllers=False) as plane:
        kubectl = Kubectl(plane.kubeconfig)
        definitions = manta_once("crds").stdout
        kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        for kind in ("rayclusters", "rayjobs", "rayservices", "raycronjobs"):
            kubectl("wait", "--for=condition=Established", f"crd/{kind}.ray.io")
        yield kubectl


def said_at_apply(kubectl: Kubectl, folder: Path) -> dict[str, str]:
    """What kubectl says instead of what it should, by manifest."""
    odd: dict[str, str] = {}
    for wrong in WRONG:
        output = kubectl("apply", "-f", str(written(folder, wrong)), check=False)
        expected = wrong.refused or f"/{wrong.name} created"
        if expected not in output or (wrong.refused and "created" in output):
            odd[wrong.name] = output
    return odd


def said_in_status(kubectl: Kubectl, folder: Path) -> dict[str, str]:
    """What the conditions of stored objects say instead of what they should."""
    odd: dict[str, str] = {}
    for wrong in WRONG:
        read = ("get", "-f", str(folder / f"{wrong.name}.yaml"), "-o", CONDITIONS)
        try:
            if wrong.stored:
                until(lambda read=read, wrong=wrong: wrong.stored in kubectl(*read))
        except AssertionError:
            odd[wrong.name] = kubectl(*read)
    return odd


def said_in_plans(kubectl: Kubectl, folder: Path) -> dict[str, str]:
    """What `manta plan` says of the whole folder instead of what it should."""
    for wrong in WRONG:
        if wrong.planned:
            written(folder, wrong)
    done = manta_once("plan", "-f", str(folder), "--kubeconfig", str(kubectl.kubeconfig))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    raw = ("strict decoding", "<nil>", "in body", "Invalid value", "Expected `")
    assert not [words for words in raw if words in done.stdout], done.stdout
    text = done.stdout + done.stderr
    return {each.name: each.planned for each in WRONG if each.planned not in text}


@needs_kubectl
def test_on_manta_dev_each_wrong_manifest_is_told_in_its_plan_at_apply_and_in_its_status(
    tmp_path: Path,
):
    folder = tmp_path / "manifests"
    folder.mkdir()
    with manta_dev(tmp_path) as (_, kubectl):
        assert said_in_plans(kubectl, folder) == {}
        assert said_at_apply(kubectl, folder) == {}
        assert said_in_status(kubectl, folder) == {}


@needs(*SERVERS, "kubectl")
def test_a_real_api_server_says_the_same_for_the_plan_and_at_apply(tmp_path: Path):
    folder, plane = tmp_path / "manifests", tmp_path / "plane"
    folder.mkdir()
    plane.mkdir()
    with real_server(plane) as kubectl:
        assert said_in_plans(kubectl, folder) == {}
        assert said_at_apply(kubectl, folder) == {}


def test_a_file_that_is_no_yaml_is_told_with_its_line(tmp_path: Path):
    for name, words in (("tab", "found a tab character"), ("anchor", "'image' is not defined")):
        [wrong] = [each for each in WRONG if each.name == name]
        done = manta_once("plan", "--offline", "-f", str(written(tmp_path, wrong)))
        assert done.returncode == 2
        assert words in done.stderr
        assert " in line " in done.stderr

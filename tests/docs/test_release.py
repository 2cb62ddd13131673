"""What a release publishes, and which tests of KubeRay are left out."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.tree import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
NOTES = ROOT / "scripts" / "release-notes"
FILES = ("pyproject.toml", "controller/__init__.py", "charts/manta-operator/Chart.yaml")


def workflow() -> dict[Any, Any]:
    return yaml.safe_load(WORKFLOW.read_text())


def scripts() -> list[str]:
    """The shell scripts of all steps."""
    steps = [step for job in workflow()["jobs"].values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what has a version, with notes about 0.1.0."""
    for name in (*FILES, "Dockerfile"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "scripts").mkdir()
    shutil.copy(NOTES, tmp_path / "scripts")
    text = "# Changelog\n\n## 0.1.0 (2027-01-05)\n\n### New\n\n- All.\n\n## 0.0.9\n\n- Less.\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    return tmp_path


def notes(checkout: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / "scripts" / "release-notes"), version]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_notes_are_the_section_of_the_version(checkout: Path):
    assert notes(checkout, "0.1.0").stdout == "### New\n\n- All.\n"


def test_a_version_without_a_section_is_not_released(checkout: Path):
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- All.\n")
    done = notes(checkout, "0.1.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "CHANGELOG.md has no section `## 0.1.0`" in done.stderr


@pytest.mark.parametrize("name", [*FILES, "Dockerfile"])
def test_a_version_that_a_file_does_not_have_is_not_released(checkout: Path, name: str):
    file = checkout / name
    file.write_text(file.read_text().replace("0.1.0", "0.1.1", 1))
    done = notes(checkout, "0.1.0")
    assert done.returncode == 1
    assert f"{name} has version" in done.stderr
    assert "0.1.1" in done.stderr


def test_a_tag_starts_the_release_and_nothing_else_does():
    assert workflow()[True] == {"push": {"tags": ["v[0-9]*"]}}  # YAML reads `on` as true


def test_the_steps_are_shell_and_run_what_there_is():
    for script in scripts():
        subprocess.run(["bash", "-n", "-c", script], check=True)
    text = "\n".join(scripts())
    assert re.findall(r"^make (.+)$", text, re.MULTILINE) == ["lint test", "package", "site"]
    for name in re.findall(r"scripts/\S+", text):
        assert (ROOT / name).exists()
    assert "--platform linux/amd64,linux/arm64 --sbom=true" in text
    for signed in ('cosign sign --yes "${image', 'cosign sign --yes "${charts', "sign-blob"):
        assert signed in text


def test_the_published_chart_names_the_published_image():
    """The line of values.yaml that the workflow replaces is there, once."""
    (pattern,) = re.findall(r"sed -i \"s\|\^(.+?)\|", "\n".join(scripts()))
    values = (ROOT / "charts" / "manta-operator" / "values.yaml").read_text()
    assert len(re.findall(f"^{pattern}", values, re.MULTILINE)) == 1


SCRIPT = ROOT / "scripts" / "kuberay-suites"
COMPATIBILITY = (ROOT / "docs" / "compatibility.md").read_text()


def script() -> Any:
    loader = SourceFileLoader("kuberay_suites", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for their annotations
    loader.exec_module(module)
    return module


def rows() -> list[list[str]]:
    """The rows of the table of exceptions, without its head."""
    section = COMPATIBILITY.partition("## KubeRay's own end-to-end tests\n")[2].partition("\n## ")[
        0
    ]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_row_of_the_page_is_a_test_that_is_left_out_with_its_reason():
    listed = script().listed()
    assert listed
    assert [[f"`{name}`", why] for name, why in listed.items()] == rows()
    assert all(listed.values())


def test_without_the_suites_it_says_so_and_runs_nothing(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "it has no ray-operator/test" in done.stderr
    assert "Traceback" not in done.stderr

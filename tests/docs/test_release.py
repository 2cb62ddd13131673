"""What a maintainer's tag starts: the workflow, the notes, and the packages without a registry."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
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

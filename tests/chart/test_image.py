"""The Dockerfile says what the project and the chart say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_what_is_copied_exists_and_is_let_through_by_dockerignore():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    assert names == let_through
    assert all((ROOT / name).exists() for name in names)


def test_all_packages_of_the_wheel_but_those_of_development_are_in_the_image():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    in_the_image = [name for name in packages if f"COPY {name} ./{name}\n" in DOCKERFILE]
    assert set(packages) - set(in_the_image) == {"devcluster", "demos"}


def test_nothing_is_installed_without_its_hash():
    installs = re.findall(r"pip install (.+)", DOCKERFILE)
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]


def test_the_image_runs_as_the_user_that_the_chart_asks_for():
    values = yaml.safe_load((ROOT / "charts" / "manta-operator" / "values.yaml").read_text())
    user = values["podSecurityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}\n" in DOCKERFILE


def test_the_image_starts_the_operator():
    assert DOCKERFILE.endswith('ENTRYPOINT ["manta"]\nCMD ["run"]\n')


def test_the_image_has_the_command_of_kuberays_chart():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["manager"] == "controller.command.manager:main"
    assert "RUN ln -s /opt/manta/bin/manager /manager\n" in DOCKERFILE


def test_the_labels_of_the_image_say_what_the_project_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="(.*?)"', DOCKERFILE))
    assert labels == {
        "title": project["name"],
        "description": project["description"],
        "version": project["version"],
        "licenses": project["license"],
    }

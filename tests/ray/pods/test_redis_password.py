"""A Redis password of any characters reaches `ray start`, whichever way it is given."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ray.cluster.support import manifest
from tests.ray.pods.test_builder import head_of, ray

PASSWORD = """p@ss $word "x" 'y' `z` \\ *"""
_REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")
BY_OPTIONS = {"redisAddress": "redis:6379", "redisPassword": {"value": PASSWORD}}


def legacy(given: str, *env: dict[str, Any]) -> dict[str, Any]:
    """Fault tolerance as older versions of KubeRay knew it."""
    raw = manifest()
    raw["metadata"]["annotations"] = {"ray.io/ft-enabled": "true"}
    head = raw["spec"]["headGroupSpec"]
    head["rayStartParams"] = {"redis-password": given}
    head["template"]["spec"]["containers"][0]["env"] = list(env)
    return raw


def by_options(password: str = PASSWORD) -> dict[str, Any]:
    raw = manifest()
    options = BY_OPTIONS | {"redisPassword": {"value": password}}
    raw["spec"]["gcsFaultToleranceOptions"] = options | {"redisUsername": {"value": "me too"}}
    return raw


def variables(container: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """The environment as the kubelet expands it: not with what comes from other sources."""
    found: dict[str, str] = {}

    def expanded(reference: re.Match[str]) -> str:
        return found.get(reference[1], reference[0]) if reference[1] else "$"

    for entry in container["env"]:
        if "value" in entry:
            found[entry["name"]] = _REFERENCE.sub(expanded, entry["value"])
    return given | found


def started(raw: dict[str, Any], path: Path, **given: str) -> tuple[list[str], dict[str, str]]:
    """The arguments with which `ray` is run, and the environment of the container."""
    double = path / "ray"
    double.write_text(f"#!{sys.executable}\nimport sys\nprint(ascii(sys.argv[1:]))\n")
    double.chmod(0o755)
    container = ray(head_of(raw))
    env = variables(container, given)
    done = subprocess.run(
        [*container["command"], *container["args"]],
        env=env | {"PATH": f"{path}:/usr/bin:/bin", "RAY_START_ULIMIT_OPEN_FILES": "64"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ast.literal_eval(done.stdout), env


OTHER = {"name": "MINE", "value": PASSWORD}
SOURCED = {"REDIS_PASSWORD": PASSWORD}
WAYS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "options": (by_options(), {}),
    "a parameter": (legacy(PASSWORD), {}),
    "a variable of another name": (legacy("$MINE", OTHER), {}),
    "a variable in braces": (legacy("${MINE}", OTHER), {}),
    "a variable in quotes": (legacy('"$MINE"', OTHER), {}),
    "a source of variables": (legacy("$REDIS_PASSWORD"), SOURCED),
    "a source of variables, in quotes": (legacy('"$REDIS_PASSWORD"'), SOURCED),
}


@pytest.mark.parametrize("way", WAYS)
def test_bash_hands_it_over_as_it_is(way: str, tmp_path: Path):
    raw, given = WAYS[way]
    arguments, env = started(raw, tmp_path, **given)
    assert f"--redis-password={PASSWORD}" in arguments
    assert env["REDIS_PASSWORD"] == PASSWORD, "the clean-up has no other source"


@pytest.mark.parametrize("password", ["a;b", "a&b", "(a)", "a|b", "<a>", "#a"])
def test_no_character_in_a_parameter_ends_the_command(password: str, tmp_path: Path):
    arguments, env = started(legacy(password), tmp_path)
    assert f"--redis-password={password}" in arguments
    assert env["REDIS_PASSWORD"] == password


def test_the_kubelet_expands_nothing_in_a_parameter(tmp_path: Path):
    password = "a $(RAY_PORT) $$ b"
    arguments, env = started(legacy(password), tmp_path)
    assert f"--redis-password={password}" in arguments
    assert env["REDIS_PASSWORD"] == password


def test_a_user_name_with_a_space_is_one_argument(tmp_path: Path):
    arguments, _ = started(by_options(), tmp_path)
    assert "--redis-username=me too" in arguments


def test_quotes_that_a_user_has_written_for_the_shell_are_none_of_the_password(tmp_path: Path):
    arguments, env = started(legacy("'a b'"), tmp_path)
    assert "--redis-password=a b" in arguments
    assert env["REDIS_PASSWORD"] == "a b"


@pytest.mark.parametrize("given", ["$(cat {file})", '"$(cat {file})"'])
def test_a_command_that_prints_the_password_is_run(given: str, tmp_path: Path):
    file = tmp_path / "password"
    file.write_text("from-vault")
    arguments, env = started(legacy(given.format(file=file)), tmp_path)
    assert "--redis-password=from-vault" in arguments
    assert "REDIS_PASSWORD" not in env

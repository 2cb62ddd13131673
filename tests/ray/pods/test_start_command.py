"""Parameters of `ray start` and how they are rendered."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.ray.pods.environment import (
    container_command,
    render_start_command,
    start_parameters,
)
from tests.ray.cluster.support import cluster, manifest, plan, reads
from tests.ray.pods.test_builder import head_of, ray


def parameters(**more: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {
        "given": None,
        "resources": None,
        "labels": None,
        "container": {},
        "head_address": "h:6379",
    }
    return start_parameters(more.pop("role", "worker"), **(arguments | more))


DEFAULTS = {
    "address": "h:6379",
    "block": "true",
    "metrics-export-port": "8080",
    "dashboard-agent-listen-port": "52365",
}


def test_the_users_parameters_win_except_over_block():
    own = {"address": "x", "block": "false", "num-cpus": "7", "memory": "1", "num-gpus": "0"}
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    got = parameters(given=own, container={"resources": {"limits": limits}})
    assert got == DEFAULTS | own | {"block": "true"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "1500m"}}, {"num-cpus": "2"}),
        ({"requests": {"cpu": "300m"}}, {"num-cpus": "1"}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}, {"num-cpus": "4"}),
        ({"requests": {"memory": "1Gi"}}, {}),
        ({"limits": {"memory": "1Gi"}}, {"memory": "1073741824"}),
        ({"limits": {"nvidia.com/gpu": "2"}}, {"num-gpus": "2"}),
        ({"requests": {"nvidia.com/gpu": "2"}}, {}),
        ({"limits": {"amd.com/gpu": "0", "nvidia.com/gpu": "2"}}, {"num-gpus": "2"}),
        ({"limits": {"amd.com/gpu": "1", "nvidia.com/gpu": "2"}}, {"num-gpus": "1"}),
        ({"limits": {"nvidia.com/mig-1g.5gb": "3"}}, {"num-gpus": "3"}),
        ({"limits": {"google.com/tpu": "4"}}, {"resources": "'{\"TPU\":4}'"}),
        (
            {"limits": {"aws.amazon.com/neuroncore": "2", "google.com/tpu": "4"}},
            {"resources": "'{\"neuron_cores\":2}'"},
        ),
    ],
)
def test_a_containers_resources_fill_what_is_missing(
    resources: dict[str, Any], expected: dict[str, str]
):
    assert parameters(container={"resources": resources}) == DEFAULTS | expected


HUGE = "'{\"a\": %s}'" % ("9" * 400)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("'{\"a\": 1}'", '\'{"TPU":4,"a":1}\''),
        ("'{\"TPU\": 1}'", "'{\"TPU\": 1}'"),
        ("'{\"neuron_cores\": 1}'", "'{\"neuron_cores\": 1}'"),
        ("not json", "not json"),
        ("'[1]'", "'[1]'"),
        ('\'{"a": "b"}\'', '\'{"a": "b"}\''),
        pytest.param("[" * 100_000, "[" * 100_000, id="deep"),
        pytest.param(HUGE, HUGE, id="more than a float can hold"),
        pytest.param("{'a': %s}" % ("9" * 5000), "{'a': %s}" % ("9" * 5000), id="5,000 digits"),
    ],
)
def test_accelerators_are_merged_into_custom_resources_that_can_be_read(given: str, expected: str):
    container = {"resources": {"limits": {"google.com/tpu": "4"}}}
    assert parameters(given={"resources": given}, container=container)["resources"] == expected


def test_logical_resources_become_parameters_and_bad_ones_are_skipped():
    resources = {"CPU": "1500m", "Memory": "1Gi", "GPU": "1", "Tape": "0.5", "disk": "x", "b": "2"}
    assert parameters(resources=resources) == DEFAULTS | {
        "num-cpus": "2",
        "memory": "1073741824",
        "num-gpus": "1",
        "resources": '\'{"Tape":0.5,"b":2}\'',
    }


def test_the_layout_of_the_command_is_kuberays():
    rendered = render_start_command(
        "head",
        {
            "port": "6379",
            "block": "true",
            "no-monitor": "TRUE",
            "redis-shards": "False",
            "include-log-monitor": "false",
            "include-dashboard": "true",
            "log-color": "false",
        },
    )
    assert rendered == (
        "ray start --head  --block  --include-dashboard=true  --include-log-monitor=false"
        "  --log-color=false  --no-monitor  --port=6379 "
    )
    assert render_start_command("worker", {"block": "true"}) == "ray start  --block "


def test_the_users_words_run_first():
    own = {"command": ["a b"], "args": ["c"]}
    assert container_command(own, "S", login_shell=False) == (
        ["/bin/bash", "-c", "--"],
        [" a b  c  && ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; S"],
    )
    assert container_command({"args": ["x; ray start"]}, "S", login_shell=False) is None


# -- the password of Redis -----------------------------------------------------------------------


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


# -- the script that waits for the head ----------------------------------------------------------


RAY = """\
#!/bin/bash
echo "$@" >> asked
echo complaint >&2
[ "$(wc -l < asked)" -ge 3 ]
"""
SLEEP = """\
#!/bin/bash
echo "$@" >> slept
"""


def waiting_command() -> list[str]:
    made = plan(reads(cluster(manifest())))
    bodies = [dict(write.body) for stage in made.stages for write in stage]
    worker = next(b for b in bodies if b["metadata"]["labels"].get("ray.io/node-type") == "worker")
    (container,) = worker["spec"]["initContainers"]
    return [*container["command"], *container["args"]]


@pytest.mark.real_time
@pytest.mark.parametrize(("seconds", "complaints"), [(0, 0), (121, 3)])
def test_a_worker_asks_until_the_head_answers_and_complains_only_after_two_minutes(
    tmp_path: Path, seconds: int, complaints: int
):
    for name, text in (("ray", RAY), ("sleep", SLEEP)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    shell, *options, script = waiting_command()
    done = subprocess.run(
        [shell, *options, f"SECONDS={seconds}\n{script}"],
        cwd=tmp_path,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    address = "example-head-svc.default.svc.cluster.local:6379"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [f"health-check --address {address}"] * 3
    assert (tmp_path / "slept").read_text().splitlines() == ["5", "5"]
    assert done.stderr.count("complaint") == complaints
    assert done.stdout.splitlines()[-1] == f"The GCS at {address} is ready."

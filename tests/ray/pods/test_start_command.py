"""Parameters of `ray start` and how they are rendered."""

from __future__ import annotations

from typing import Any

import pytest

from controller.ray.pods.environment import (
    container_command,
    is_gpu,
    render_start_command,
    start_parameters,
)


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


def test_labels_are_sorted():
    assert parameters(labels={"b": "2", "a": "1"})["labels"] == "a=1,b=2"


def test_the_head_listens_for_its_dashboard_and_has_no_address():
    got = parameters(role="head")
    assert got["dashboard-host"] == "0.0.0.0"
    assert "address" not in got
    assert parameters(role="head", given={"dashboard-host": "::"})["dashboard-host"] == "::"


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


@pytest.mark.parametrize(
    ("key", "expected"),
    [("nvidia.com/gpu", True), ("gpu", True), ("GPU", True), ("nvidia.com/mig-2g.10gb", True),
     ("nvidia.com/gpu.shared", False), ("cpu", False), ("google.com/tpu", False)],
)  # fmt: skip
def test_what_counts_as_gpu(key: str, expected: bool):
    assert is_gpu(key) is expected

"""Command lines and environments of containers, as pure functions."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from devcluster.processes.environment import (
    CONFIG_MAP,
    SECRET,
    DownwardValues,
    Image,
    Images,
    InvalidConfiguration,
    SourceReference,
    UnknownImage,
    env_sources,
    expand,
    invocation,
)
from devcluster.processes.specification import SpecifiedPod

AROUND = DownwardValues(pod_ip="10.1.2.3", host_ip="10.1.0.1", cpus=4, memory=8 * 1024**3)
IMAGE = Image(Path("/venv"), env={"FROM_IMAGE": "1"}, command=("python3",))


def a_pod(**container) -> SpecifiedPod:
    body = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "labels": {"b": "2", "a": '1"'},
            "annotations": {"ray.io/x": "y"},
        },
        "spec": {
            "nodeName": "n",
            "serviceAccountName": "robot",
            "containers": [{"name": "main", "image": "ray", **container}],
        },
    }
    return msgspec.convert(body, SpecifiedPod)


GIVEN = {"KUBERNETES_SERVICE_HOST": "10.1.0.1"}


def called(sources=None, **container):
    pod = a_pod(**container)
    (main,) = pod.spec.containers
    return invocation(pod, main, IMAGE, downward=AROUND, sources=sources or {}, given=GIVEN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "a"),
        ("x$(A)y$(B)z", "xaybz"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$(NO)", "$(NO)"),
        ("$(A", "$(A"),
        ("$A ${A} $", "$A ${A} $"),
        ("$$", "$"),
    ],
)
def test_references_are_expanded_as_by_kubernetes(text, expected):
    assert expand(text, {"A": "a", "B": "b"}) == expected


def test_nothing_is_inherited(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy")
    env = called(command=["x"]).env
    assert sorted(env) == [
        "FROM_IMAGE",
        "HOME",
        "HOSTNAME",
        "KUBERNETES_SERVICE_HOST",
        "LANG",
        "PATH",
        "VIRTUAL_ENV",
    ]
    assert env["PATH"].startswith("/venv/bin:")
    assert env["HOSTNAME"] == "p"


def test_a_container_without_a_command_runs_that_of_the_image():
    assert called().argv == ("python3",)
    assert called(args=["-c", "1"]).argv == ("-c", "1")
    env = [{"name": "WHAT", "value": "start"}]
    assert called(command=["ray"], args=["$(WHAT)"], env=env).argv == ("ray", "start")


def test_variables_refer_to_earlier_ones():
    env = called(
        env=[
            {"name": "A", "value": "1"},
            {"name": "B", "value": "$(A)2 $(C)"},
            {"name": "C", "value": "3"},
            {"name": "FROM_IMAGE", "value": "mine"},
        ],
        workingDir="/w/$(A)",
    )
    assert env.env["B"] == "12 $(C)"
    assert env.env["FROM_IMAGE"] == "mine"
    assert env.cwd == "/w/1"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['b']", "2"),
        ("metadata.annotations['ray.io/x']", "y"),
        ("metadata.labels", 'a="1\\""\nb="2"'),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.1.2.3"),
        ("status.hostIP", "10.1.0.1"),
    ],
)
def test_fields_of_the_pod(path, expected):
    reference = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    assert called(env=[reference]).env["X"] == expected


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "0", "1"),
        ("limits.memory", "1Mi", "8192"),
        ("requests.memory", "1", "0"),
    ],
)
def test_resources_are_rounded_up_and_default_to_the_machine(resource, divisor, expected):
    resources = {"limits": {"cpu": "1500m"}, "requests": {"cpu": "500m"}}
    source = {"resourceFieldRef": {"resource": resource, "divisor": divisor}}
    env = called(env=[{"name": "X", "valueFrom": source}], resources=resources).env
    assert env["X"] == expected


def test_a_containers_own_variables_win_over_those_of_the_api_server():
    env = [
        {"name": "OLD", "value": "$(KUBERNETES_SERVICE_HOST)"},
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
    ]
    found = called(env=env).env
    assert (found["OLD"], found["KUBERNETES_SERVICE_HOST"]) == ("10.1.0.1", "mine")


def test_an_unknown_field_is_said():
    reference = {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}
    with pytest.raises(InvalidConfiguration, match=r"env X: unsupported fieldPath: status\.phase"):
        called(env=[reference])


def test_keys_and_whole_objects():
    container = {
        "envFrom": [
            {"prefix": "P_", "configMapRef": {"name": "c"}},
            {"secretRef": {"name": "gone", "optional": True}},
        ],
        "env": [
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {
                "name": "O",
                "valueFrom": {"configMapKeyRef": {"name": "c", "key": "no", "optional": True}},
            },
            {"name": "R", "value": "$(P_a)"},
        ],
    }
    sources = {
        SourceReference(CONFIG_MAP, "c"): {"a": b"1"},
        SourceReference(SECRET, "gone"): None,
        SourceReference(SECRET, "s"): {"k": b"v"},
    }
    assert env_sources(a_pod(**container).spec.containers[0]) == sources.keys()
    env = called(sources, **container).env
    assert (env["P_a"], env["S"], env["R"]) == ("1", "v", "1")
    assert "O" not in env


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, 'secret "s" not found'),
        ({"other": b""}, "couldn't find key k in Secret ns/s"),
    ],
)
def test_what_is_missing_is_named(data, message):
    reference = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(InvalidConfiguration) as failure:
        called({SourceReference(SECRET, "s"): data}, env=[reference])
    assert str(failure.value) == message


def test_a_missing_object_of_env_from_is_named():
    with pytest.raises(InvalidConfiguration, match='configmap "c" not found'):
        called({SourceReference(CONFIG_MAP, "c"): None}, envFrom=[{"configMapRef": {"name": "c"}}])


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("rayproject/ray", "rayproject/ray"),
        ("rayproject/ray", "rayproject/ray:2.46.0"),
        ("rayproject/ray", "docker.io/rayproject/ray:2.46.0@sha256:0123"),
        ("redis", "docker.io/library/redis:7"),
        ("localhost:5000/mine", "localhost:5000/mine:1"),
        ("rayproject/ray:2.46.0", "rayproject/ray:2.46.0"),
    ],
)
def test_an_image_is_found_by_its_name(given, image):
    assert Images({given: IMAGE}).find(image) is IMAGE


def test_the_tag_that_was_given_comes_first():
    other = Image(Path("/other"))
    images = Images({"ray": IMAGE, "ray:2": other})
    assert images.find("ray:2") is other
    assert images.find("ray:3") is IMAGE


@pytest.mark.parametrize("image", ["raymond", "other/ray", "ray/x:1"])
def test_another_image_is_not_found(image):
    with pytest.raises(UnknownImage, match=f"--image {image.partition(':')[0]}=PATH"):
        Images({"ray": IMAGE}).find(image)


def test_an_environment_that_the_user_has_named_is_not_replaced():
    images, other = Images({"ray": IMAGE}), Image(Path("/other"))
    images.add("ray", other)
    images.add("vllm", other)
    assert images.find("ray:2") is IMAGE
    assert images.find("vllm:1") is other

"""Where the dashboards of Ray are reached from this machine."""

from __future__ import annotations

import msgspec

from controller.command.development.dev import _Heads
from controller.kube.objects import Pod


def head(ip: str, *, ready: bool = True, port: int | None = None) -> Pod:
    ports = [{"name": "dashboard", "containerPort": port}] if port else []
    return msgspec.convert(
        {
            "metadata": {
                "name": "a-head",
                "namespace": "default",
                "labels": {"ray.io/cluster": "a"},
            },
            "spec": {"containers": [{"name": "ray-head", "ports": ports}]},
            "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": str(ready)}]},
        },
        Pod,
    )


def test_the_address_is_said_once_when_the_head_is_ready():
    said: list[str] = []
    heads = _Heads(said.append, "/venv/bin/ray")
    heads.saw_pod("default/a-head", head("10.0.0.1", ready=False))
    assert said == []
    heads.saw_pod("default/a-head", head("10.0.0.1"))
    heads.saw_pod("default/a-head", head("10.0.0.1"))
    assert len(said) == 1
    assert said[0].startswith(
        "RayCluster default/a: dashboard at http://10.0.0.1:8265 (/venv/bin/ray job submit "
    )


def test_a_head_in_the_place_of_another_has_its_address_said_too():
    said: list[str] = []
    heads = _Heads(said.append, "/venv/bin/ray")
    heads.saw_pod("default/a-head", head("10.0.0.1"))
    heads.saw_pod("default/a-head", None)
    heads.saw_pod("default/a-head", head("10.0.0.1"))
    heads.saw_pod("default/a-head", head("10.0.0.2"))
    assert len(said) == 3
    assert "http://10.0.0.2:8265" in said[2]


def test_the_port_is_the_one_that_the_head_names_dashboard():
    said: list[str] = []
    _Heads(said.append, "/venv/bin/ray").saw_pod("default/a-head", head("10.0.0.1", port=9000))
    assert "http://10.0.0.1:9000" in said[0]

"""What `manta dev` takes: images, presets of nodes, and where the dashboards are reached."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from controller.command.development.dev import announcer
from controller.command.development.embedded_cluster import node_shapes
from controller.command.development.process_node import parse_images, ray_program
from controller.kube.errors import ConfigurationError
from controller.kube.objects import Pod
from devcluster.processes.environment import Images


def environment(folder: Path, name: str) -> Path:
    (folder / name / "bin").mkdir(parents=True)
    return folder / name


def test_every_option_names_an_environment(tmp_path: Path):
    one, two = environment(tmp_path, "one"), environment(tmp_path, "two")
    images = parse_images([f"rayproject/ray={one}", f"registry:5000/own:1.0={two}"])
    assert images["rayproject/ray"].path == one
    assert images["registry:5000/own:1.0"].path == two
    assert images["rayproject/ray"].env["GRPC_DNS_RESOLVER"] == "native"


def test_paths_may_be_relative_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = environment(tmp_path, "own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_images(["a=own", "b=~/own"])["a"].path == own
    assert parse_images(["a=own", "b=~/own"])["b"].path == own


@pytest.mark.parametrize("option", ["rayproject/ray", "=/tmp", "rayproject/ray="])
def test_an_option_of_another_form_is_refused_with_the_right_one(option: str):
    with pytest.raises(ConfigurationError, match=f"--image {option}: write NAME=PATH"):
        parse_images([option])


def test_a_path_that_is_no_environment_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"--image a=.*is not a folder; give the folder"):
        parse_images([f"a={tmp_path}/missing"])
    with pytest.raises(ConfigurationError, match=r"--image a=.*has no folder bin; give"):
        parse_images([f"a={tmp_path}"])


def test_a_name_is_given_once(tmp_path: Path):
    own = environment(tmp_path, "own")
    with pytest.raises(ConfigurationError, match="a has another environment already"):
        parse_images([f"a={own}", f"a={own}"])


def test_rays_own_program_is_the_one_that_pods_run(tmp_path: Path):
    own = environment(tmp_path, "own")
    assert ray_program(Images({})) == "ray"
    assert ray_program(Images(parse_images([f"rayproject/ray={own}"]))) == "ray"
    (own / "bin" / "ray").touch()
    assert ray_program(Images(parse_images([f"rayproject/ray={own}"]))) == str(own / "bin" / "ray")


def test_presets_and_files_add_up(tmp_path: Path):
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "- name: big\n  count: 2\n  cpu: 64\n  resources: {example.com/fpga: 1}\n"
        "  labels: {zone: a}\n  taints: [{key: big, effect: NoSchedule}]\n"
    )
    nodes = node_shapes(["8xH100", str(file)])
    assert [node.name for node in nodes] == ["h100-0", "big-0", "big-1"]
    assert nodes[0].resources == {"nvidia.com/gpu": "8"}
    assert (nodes[1].cpu, nodes[1].resources, nodes[1].labels) == (
        "64",
        {"example.com/fpga": "1"},
        {"zone": "a"},
    )
    assert nodes[1].taints == ({"key": "big", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "neither a preset (cpu, spot, 8xH100, tpu-v6e-16) nor a file that can be read"),
        ("- {", "this is not YAML"),
        ("name: a", "Expected `array`, got `object`; the file is a list of nodes"),
        ("- name: a\n  gpus: 8", "unknown field `gpus` - at `$[0]`; the file is a list of nodes"),
        ("- name: a\n  count: 0", "count of a is 0: it must be 1 or more"),
        ("- name: a\n  cpu: many", "cpu of a: 'many' is not a quantity"),
        ("- name: a\n- name: a", "there is a node a-0 already; use another name"),
        ("[]", "it names no node"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, text: str | None, problem: str):
    file = tmp_path / "nodes.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError) as refusal:
        node_shapes([str(file)])
    assert str(refusal.value).startswith(f"--nodes {file}: ")
    assert problem in str(refusal.value)


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
    saw_pod = announcer(said.append, "/venv/bin/ray")
    saw_pod("default/a-head", head("10.0.0.1", ready=False))
    assert said == []
    saw_pod("default/a-head", head("10.0.0.1"))
    saw_pod("default/a-head", head("10.0.0.1"))
    assert len(said) == 1
    assert said[0].startswith(
        "RayCluster default/a: dashboard at http://10.0.0.1:8265 (/venv/bin/ray job submit "
    )


def test_a_head_in_the_place_of_another_has_its_address_said_too():
    said: list[str] = []
    saw_pod = announcer(said.append, "/venv/bin/ray")
    saw_pod("default/a-head", head("10.0.0.1"))
    saw_pod("default/a-head", None)
    saw_pod("default/a-head", head("10.0.0.1"))
    saw_pod("default/a-head", head("10.0.0.2"))
    assert len(said) == 3
    assert "http://10.0.0.2:8265" in said[2]


def test_the_port_is_the_one_that_the_head_names_dashboard():
    said: list[str] = []
    announcer(said.append, "/venv/bin/ray")("default/a-head", head("10.0.0.1", port=9000))
    assert "http://10.0.0.1:9000" in said[0]

"""`manta dev --nodes` takes presets and files, and says what is wrong with either."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.command.development.embedded_cluster import node_shapes
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def test_without_the_option_there_are_nodes_of_all_presets():
    names = {node.name.rpartition("-")[0] for node in node_shapes([])}
    assert names == {"cpu", "spot", "h100", "tpu"}


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

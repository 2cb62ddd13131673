"""The accelerators of a node: of an instance type, from labels, slices, and some of them."""

from __future__ import annotations

import pytest

from controller.kaito.presets.gpus import (
    Cloud,
    NodeGPUs,
    UnknownGPUs,
    check_alike,
    find_instance_type,
    gpus_of_node,
    gpus_of_slice,
    may_be_provisioned,
)

GIB = 1024**3
LABELS = {
    "nvidia.com/gpu.product": "Tesla-A100-SXM4-80GB",
    "nvidia.com/gpu.count": "4",
    "nvidia.com/gpu.memory": "81920",
}


def test_an_instance_type_is_found_in_any_case_and_named_as_the_cloud_writes_it():
    found = find_instance_type(Cloud.AZURE, "standard_nc24ads_a100_V4")
    assert found is not None
    assert found.name == "Standard_NC24ads_A100_v4"
    assert found.gpus == NodeGPUs(1, 80 * GIB, "NVIDIA A100", nvme=True)


@pytest.mark.parametrize(
    ("cloud", "name", "possible"),
    [
        (Cloud.AZURE, "Standard_NC24ads_A100_v4", True),
        (Cloud.AZURE, "standard_NEW_v9", True),
        (Cloud.AZURE, "Standard_D2s_v6", True),
        (Cloud.AZURE, "Standard_B2s", False),
        (Cloud.AWS, "p4d.24xlarge", True),
        (Cloud.AWS, "Standard_NC24ads_A100_v4", False),
        (Cloud.ARC, "Standard_NEW", False),
    ],
)
def test_unknown_types_pass_only_where_azure_may_have_new_ones(
    cloud: Cloud, name: str, possible: bool
):
    assert may_be_provisioned(cloud, name) is possible


def test_the_gpus_of_a_node_come_from_its_labels():
    gpus = gpus_of_node("n", LABELS)
    assert gpus == NodeGPUs(4, 320 * GIB, "Tesla-A100-SXM4-80GB")
    assert gpus.memory_of_one == 80 * GIB


def test_memory_is_rounded_to_whole_gibibytes():
    assert gpus_of_node("n", LABELS | {"nvidia.com/gpu.memory": "97871"}).memory == 4 * 96 * GIB


@pytest.mark.parametrize(
    ("labels", "sliced"),
    [
        ({"nvidia.com/mig.config": "all-2g.24gb", "nvidia.com/mig.config.state": "success"}, True),
        ({"nvidia.com/mig.config": "all-2g.24gb", "nvidia.com/mig.config.state": "pending"}, False),
        (
            {"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"},
            False,
        ),
        ({"nvidia.com/mig.config.state": "success"}, False),
    ],
)
def test_a_node_is_sliced_once_its_layout_is_applied(labels: dict[str, str], sliced: bool):
    assert gpus_of_node("n", LABELS | labels).is_mig is sliced


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (
            {"nvidia.com/gpu.product": "A100"},
            (
                "missing required nvidia.com labels on node n: nvidia.com/gpu.count, "
                "nvidia.com/gpu.memory; run"
            ),
        ),
        (LABELS | {"nvidia.com/gpu.count": "x"}, "invalid nvidia.com/gpu.count value on node n: x"),
        (LABELS | {"nvidia.com/gpu.count": "0"}, "invalid nvidia.com/gpu.count value on node n: 0"),
        (LABELS | {"nvidia.com/gpu.memory": "8G"}, "invalid nvidia.com/gpu.memory value on node n"),
    ],
)
def test_labels_that_say_nothing_are_an_error(labels: dict[str, str], words: str):
    with pytest.raises(UnknownGPUs, match=words):
        gpus_of_node("n", labels)


def test_a_part_of_a_nodes_gpus_has_its_share_of_the_memory():
    gpus = gpus_of_node("n", LABELS)
    assert gpus.some(2).memory == 160 * GIB
    with pytest.raises(UnknownGPUs, match=r"partition.count \(5\) exceeds GPUs available on node"):
        gpus.some(5)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("", "invalid MIG profile format"),
        ("1g.10GB", "invalid MIG profile format"),
        ("1g.1.2.3gb", "cannot parse memory value"),
        ("0g.10gb", "compute slices must be > 0"),
        ("1g.0gb", "memory must be > 0"),
        ("1g.11gb", r'unknown MIG profile "1g.11gb": must be one of \[1g.10gb 1g.12gb '),
    ],
)
def test_other_profiles_are_an_error(profile: str, words: str):
    with pytest.raises(UnknownGPUs, match=words):
        gpus_of_slice(profile)


def test_nodes_that_are_alike_pass():
    check_alike([("a", LABELS), ("b", LABELS)])
    check_alike([])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"nvidia.com/gpu.product": "H100"},
            "Non-uniform GPU product: node b has H100 GPUs, but previous node a has Tesla-A100",
        ),
        (
            {"nvidia.com/gpu.count": "2"},
            "Non-uniform GPU count: node b has 2 GPUs, but previous node a has 4 GPUs",
        ),
        (
            {"nvidia.com/gpu.memory": "40960"},
            "Non-uniform GPU memory: node b has 160Gi memory, but previous node a has 320Gi memory",
        ),
        ({"nvidia.com/gpu.count": "many"}, "invalid nvidia.com/gpu.count value on node b: many"),
    ],
)
def test_a_node_that_differs_is_named(changes: dict[str, str], words: str):
    with pytest.raises(UnknownGPUs) as raised:
        check_alike([("a", LABELS), ("b", {**LABELS, **changes})])
    assert str(raised.value).startswith(words)

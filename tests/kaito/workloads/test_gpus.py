"""The GPUs of a workload: of its machines, of a node that there is, or a part of them."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import Partition, ResourceSpec
from controller.kaito.presets.gpus import UnknownGPUs
from controller.kaito.workloads.server import workload_gpus

GIB = 1024**3
OWN = KaitoOptions(provisioner=Provisioner.OWN_NODES, mig=True, accelerators=True)
NODE = (
    "gpu-node-1",
    {
        "nvidia.com/gpu.product": "NVIDIA-A10-24Q",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.memory": "24512",
    },
)


def resource(instance_type: str = "", **partition: Any) -> ResourceSpec:
    part = Partition(**partition) if partition else None
    return ResourceSpec(instance_type=instance_type, partition=part)


def test_of_a_part_of_a_node():
    assert workload_gpus(resource(mode="accelerator", count=1), OWN, NODE).memory == 24 * GIB
    assert workload_gpus(resource(mode="mig", profile="2g.20gb"), OWN).memory == 20 * GIB


def test_partitions_need_their_gates():
    plain = KaitoOptions(provisioner=Provisioner.OWN_NODES)
    assert workload_gpus(resource(mode="accelerator", count=1), plain, NODE).count == 2
    assert workload_gpus(resource(mode="mig", profile="2g.20gb"), plain, NODE).count == 2


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (
            resource("unknown-instance-type"),
            KaitoOptions(),
            "invalid value: Unsupported SKU 'unknown-instance-type' for cloud provider: sku",
        ),
        (resource(), OWN, "no ready nodes found matching the workspace's label selector"),
    ],
)
def test_what_is_not_known_is_said_in_kaitos_words(
    given: ResourceSpec, options: KaitoOptions, message: str
):
    with pytest.raises(UnknownGPUs) as raised:
        workload_gpus(given, options)
    assert str(raised.value) == message

"""Nodes for a model, beyond the table."""

from __future__ import annotations

import pytest

from controller.kaito.presets import (
    Cloud,
    DoesNotFit,
    NodeGPUs,
    estimate_nodes,
    find_instance_type,
    find_model,
    gpus_of_slice,
)

GIB = 1024**3


def gpus(name: str) -> NodeGPUs:
    machine = find_instance_type(Cloud.AZURE, f"Standard_{name}")
    assert machine is not None
    return machine.gpus


def test_a_longer_context_may_need_more_nodes():
    model = find_model("meta-llama/Llama-3.3-70B-Instruct")
    assert model is not None
    assert estimate_nodes(model, gpus("NC24ads_A100_v4"), 2048) == 3
    assert estimate_nodes(model, gpus("NC24ads_A100_v4"), 131072) == 6


def test_a_gpu_without_room_for_weights_is_refused_with_the_reason():
    model = find_model("phi-4")
    assert model is not None
    with pytest.raises(DoesNotFit) as error:
        estimate_nodes(model, NodeGPUs(1, 2 * GIB))
    assert str(error.value) == (
        "GPU memory 2147483648 bytes is too small, needs at least 2.7 GB overhead "
        "(base: 2.3GB + KV Cache: 0.4 GB)"
    )


def test_a_model_never_spans_slices():
    model = find_model("phi-4-mini-instruct")
    assert model is not None
    assert estimate_nodes(model, gpus_of_slice("2g.20gb")) == 1
    with pytest.raises(DoesNotFit) as error:
        estimate_nodes(model, gpus_of_slice("1g.10gb"))
    assert str(error.value) == (
        "model needs 10.2GB (weights 7.3GB + overhead 2.9GB) but the MIG slice only provides 10GB "
        "(8.4GB available after vLLM gpu-memory-utilization)"
    )

"""Names of presets, and each model of the catalogue as a table of another program has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.kaito.presets.gpus import (
    Cloud,
    DoesNotFit,
    NodeGPUs,
    disk_request,
    estimate_nodes,
    find_instance_type,
    gpus_of_slice,
    startup_seconds,
)
from controller.kaito.presets.models import (
    Model,
    catalogue,
    find_model,
    is_deprecated,
    is_preset_name,
    model_id,
    read_table,
)
from controller.kaito.presets.runtimes import tunable_models

TABLE = [
    line.split()
    for line in (Path(__file__).parent / "conformance.txt").read_text().splitlines()
    if not line.startswith("#")
]
TYPES = [f"Standard_{name}" for name in TABLE[0][6:]]
ROWS = TABLE[1:]


def test_the_table_has_every_model_of_the_catalogue():
    assert [row[0] for row in ROWS] == [model.name for model in catalogue().values()]
    assert len(ROWS) == 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_model_needs_what_the_table_says(row: list[str]):
    name, weights, per_token, _attention, disk, start, *nodes = row
    model = find_model(name)
    assert model is not None
    assert model.weights == weights
    assert model.cache_bytes_per_token == int(per_token)
    assert disk_request(model) == disk
    assert int(startup_seconds(model)) == int(start)
    machines = [find_instance_type(Cloud.AZURE, each) for each in TYPES]
    assert [estimate_nodes(model, each.gpus) for each in machines if each] == list(map(int, nodes))


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


def test_every_alias_stands_for_a_model_of_the_catalogue():
    aliases = read_table("preset_names.yaml", dict)["aliases"]
    assert len(aliases) == 25
    for alias, name in aliases.items():
        assert find_model(alias) is catalogue()[name.lower()], alias


@pytest.mark.parametrize("name", ["phi-4", "Phi-4", "microsoft/phi-4", "Microsoft/Phi-4"])
def test_names_of_presets_compare_without_case(name: str):
    model = find_model(name)
    assert model is not None
    assert model.name == "microsoft/phi-4"


def test_any_model_of_hugging_face_is_a_preset_that_may_need_a_look_up():
    assert is_preset_name("someone/Some-Model")
    assert model_id("someone/Some-Model") == "someone/some-model"
    assert find_model("someone/Some-Model") is None


@pytest.mark.parametrize("name", ["", "falcon-7b", "/model", "someone/", "phi-2"])
def test_other_names_are_no_presets(name: str):
    assert not is_preset_name(name)
    assert find_model(name) is None


def test_phi_2_was_a_preset_once():
    assert is_deprecated("Phi-2")
    assert not is_deprecated("phi-3")


def test_every_model_that_can_be_tuned_is_in_the_catalogue():
    names = {model.short_name for model in catalogue().values()}
    assert tunable_models().keys() <= names
    assert len(tunable_models()) == 10


def test_a_model_without_heads_has_no_cache_of_known_size():
    model = Model(name="a/b", weights="1Gi", hidden_size=8, layers=2)
    assert model.cache_bytes_per_token == 0


def test_a_model_that_names_no_heads_of_keys_has_one_for_each_head():
    model = Model(name="a/b", weights="1Gi", hidden_size=8, layers=2, heads=4)
    assert model.cache_bytes_per_token == 2 * 4 * 2 * 2 * 2

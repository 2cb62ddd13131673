"""The name of a preset, and the model that it stands for."""

from __future__ import annotations

import pytest

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

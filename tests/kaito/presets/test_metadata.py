"""Models from the files of a repository, and as Workspaces keep them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from controller.kaito.presets.models import (
    GIB,
    Model,
    NotServable,
    WeightFile,
    catalogue,
    is_repository,
    model_from_files,
    read_model,
    served_architectures,
    write_model,
)

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 4096,
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
}
FILES = (WeightFile("model.safetensors", 2 * GIB), WeightFile("README.md", 5))
ROWS = sorted(catalogue().values(), key=lambda model: model.name)


def model(config: dict[str, Any] | None = None, *files: WeightFile, name: str = "a/b") -> Model:
    return model_from_files(name, files or FILES, CONFIG if config is None else config)


def changed(**config: Any) -> Model:
    merged = {**CONFIG, **config}
    return model({key: value for key, value in merged.items() if value is not ...})


def config_of(row: Model) -> dict[str, Any]:
    """`config.json` as it may stand in the repository of a model of the catalogue."""
    sizes = {
        "max_position_embeddings": row.token_limit,
        "hidden_size": row.hidden_size,
        "num_hidden_layers": row.layers,
        "num_attention_heads": row.heads,
        "num_key_value_heads": row.kv_heads,
        "head_dim": row.head_dim,
        "kv_lora_rank": row.kv_lora_rank,
        "qk_rope_head_dim": row.qk_rope_head_dim,
    }
    quantization = {"quant_method": row.quantization, "bits": row.quantization_bits}
    return {
        "architectures": list(row.architectures),
        **{key: value for key, value in sizes.items() if value},
        **({"quantization_config": quantization} if row.quantization else {}),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_model_of_the_catalogue_is_read_from_its_files_too(row: Model):
    prefix = "consolidated" if row.load_format == "mistral" else "model"
    files = [WeightFile(f"{prefix}.safetensors", row.weight_bytes)]
    expected = replace(
        row,
        name=row.repository,
        config_format="",
        tokenizer_mode="",
        architectures=row.architectures,
    )
    assert model_from_files(row.name, files, config_of(row)) == expected


def test_the_architectures_of_the_catalogue_are_served():
    assert len(served_architectures()) == 356
    for row in ROWS:
        assert not served_architectures().isdisjoint(row.architectures), row.name


def test_weights_are_those_of_one_format():
    bins = WeightFile("pytorch_model.bin", 7 * GIB)
    assert model(None, *FILES, bins).weights == "2.00Gi"
    assert model(None, bins).weights == "7.00Gi"
    mistral = WeightFile("consolidated.safetensors", 3 * GIB)
    assert (model(None, *FILES, mistral).weights, model(None, mistral).load_format) == (
        "3.00Gi",
        "mistral",
    )
    parts = [WeightFile(f"model-{number}-of-2.safetensors", GIB) for number in (1, 2)]
    assert model(None, *parts).weights == "2.00Gi"


def test_sizes_may_have_other_names_and_be_texts():
    other = {"n_embd": 10.0, "n_layer": "12", "n_head": 5, "seq_length": 100}
    found = model({"architectures": ["GPT2LMHeadModel"], **other})
    assert (found.hidden_size, found.layers, found.heads, found.token_limit) == (10, 12, 5, 100)


def test_the_sizes_of_a_multimodal_model_stand_deeper():
    nested = model({"architectures": CONFIG["architectures"], "text_config": CONFIG})
    assert nested == model()
    assert model({**CONFIG, "llm_config": {"hidden_size": 1}}).hidden_size == 2048


def test_what_a_model_does_not_say_is_what_kaito_assumes():
    assert changed(max_position_embeddings=...).token_limit == 2048
    assert changed(num_key_value_heads=..., multi_query=True).kv_heads == 1
    assert changed(num_key_value_heads=...).cache_bytes_per_token == 2 * 2048 * 22 * 2
    assert changed(num_hidden_layers=..., layers_block_type=["a", "b"]).layers == 2
    assert changed(architectures=...).architectures == ()
    assert model({}, name="mistralai/Ministral-3-1B").architectures == (
        "Mistral3ForConditionalGeneration",
    )


@pytest.mark.parametrize("odd", [None, "x", [], {}, True, -5, float("inf"), "9" * 5000, 0])
def test_what_is_no_size_counts_as_missing(odd: Any):
    assert changed(num_attention_heads=odd, n_head=16).heads == 16


@pytest.mark.parametrize("odd", [None, "x", 5, [5, None, {}], {"a": "b"}])
def test_odd_lists_and_parts_count_as_missing(odd: Any):
    found = changed(architectures=odd, quantization_config=odd, text_config=odd)
    assert (found.architectures, found.quantization) == ((), "")


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        ((WeightFile("model.gguf", GIB),), CONFIG, "has weights of 0.00Gi"),
        ((WeightFile("a.safetensors", -GIB),), CONFIG, "has weights of -1.00Gi"),
        ((WeightFile("a.safetensors", 9000 * GIB),), CONFIG, "has weights of 9000.00Gi"),
        ((WeightFile("a.safetensors", 10**400),), CONFIG, "has weights of 1073741824.00Gi"),
        (FILES, {**CONFIG, "num_hidden_layers": 10**400}, "has a size that no model has"),
        (FILES, {**CONFIG, "architectures": ["NoSuchModel"]}, "unsupported model architecture"),
    ],
)
def test_what_is_no_model_that_can_be_served_is_refused(files: Any, config: Any, message: str):
    with pytest.raises(NotServable, match=message):
        model_from_files("a/b", files, config)


@pytest.mark.parametrize("name", ["a/b", "Qwen/Qwen3-0.6B", "01-ai/Yi_34B.x"])
def test_a_repository_has_an_organisation_and_a_name(name: str):
    assert is_repository(name)


@pytest.mark.parametrize(
    "name",
    ["a", "a/b/c", "../b", "a/..", "a/b?c", "a/b#c", "a/b%2f", "a b/c", "a/b\n", "ä/b", "a/", "/b",
     "a/b--c", "a/" + "b" * 97, "@x/b", "a/b..c"],
)  # fmt: skip
def test_what_is_no_repository_gets_into_no_address(name: str):
    assert not is_repository(name)


# as Workspaces keep them


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_is_kept_of_a_model_is_all_of_it(row: Model):
    text = write_model(row)
    assert read_model(text, row.name) == row
    assert read_model(text, row.name.upper()) == row
    assert len(text) < 500


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "null",
        "[]",
        "{",
        "[" * 10_000,
        json.dumps({"name": "other/model", "weights": "1Gi"}),
        json.dumps({"name": "a/b"}),
        json.dumps({"name": "a/b", "weights": "much"}),
        json.dumps({"name": "a/b", "weights": "0"}),
        json.dumps({"name": "a/b", "weights": "1e9Gi"}),
        json.dumps({"name": "a/b", "weights": "1Gi", "layers": -1}),
        json.dumps({"name": "a/b", "weights": "1Gi", "layers": "many"}),
        json.dumps({"name": "a/b", "weights": "1Gi", "surprise": 1}),
        json.dumps({"name": "a/b", "weights": "1Gi", "architectures": ["NoSuchModel"]}),
    ],
)
def test_what_is_not_to_be_believed_is_not_known(text: str | None):
    assert read_model(text, "a/b") is None


def test_a_user_may_write_the_facts():
    text = json.dumps({"name": "A/B", "weights": "15Gi", "layers": 32, "heads": 32})
    found = read_model(text, "a/b")
    assert found is not None
    assert (found.weights, found.repository) == ("15Gi", "a/b")

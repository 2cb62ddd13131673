"""The models that can be served by name: their catalogue, their metadata, and how one is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from math import isfinite
from typing import Any, Final, TypeVar, cast

import msgspec
import yaml

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.quantity import parse_quantity

T = TypeVar("T")


class Row(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A row of a data file, in which no unknown field may stand."""


def read_table(name: str, view: type[T]) -> T:
    """Return the content of a data file.

    Raises:
        msgspec.ValidationError: the file does not have the shape of `view`.
    """
    text = resources.files("controller.kaito.presets").joinpath("data", name).read_text("utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), view)


GIB: Final = 1024**3
_BYTES_PER_ELEMENT: Final = 2
"""The cache is counted in 16 bits, also for models that keep it in 8."""


class Model(Row, frozen=True):
    """A model of Hugging Face: its size and shape, as its `config.json` gives them.

    Attributes:
        weights: size of the files that vLLM loads, a quantity.
        architectures: class names in vLLM's registry.
        token_limit: longest context, in tokens.
        kv_heads: heads of keys and values, 0 if the model does not say.
        head_dim: size of a head, 0 for the usual `hidden_size / heads`.
        kv_lora_rank: rank of the compressed cache, 0 unless it is multi-head latent attention.
        qk_rope_head_dim: size of the positional part beside it.
        quantization: how the weights are quantized, empty if they are not.
        quantization_bits: 0 if the model does not say.
        load_format: format of the weights, in vLLM's words; empty for `auto`.
        config_format: format of the configuration, empty for that of the weights.
        tokenizer_mode: empty for the format of the weights.
    """

    name: str
    weights: str
    architectures: tuple[str, ...] = ()
    token_limit: int = 2048
    hidden_size: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    quantization: str = ""
    quantization_bits: int = 0
    load_format: str = ""
    config_format: str = ""
    tokenizer_mode: str = ""

    @property
    def repository(self) -> str:
        """The id in lower case, which Hugging Face takes for the same."""
        return self.name.lower()

    @property
    def short_name(self) -> str:
        """The last part of the id in lower case."""
        return self.repository.rpartition("/")[2]

    @property
    def weight_bytes(self) -> int:
        """Size of the weights in bytes, rounded up."""
        return parse_quantity(self.weights).value

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of keys and values that one token takes in all layers together."""
        if self.kv_lora_rank:
            elements = self.kv_lora_rank + self.qk_rope_head_dim
        else:
            usual = self.hidden_size // self.heads if self.heads else 0
            elements = 2 * (self.kv_heads or self.heads) * (self.head_dim or usual)
        return elements * self.layers * _BYTES_PER_ELEMENT


class _Names(Row, frozen=True):
    """`preset_names.yaml`."""

    aliases: dict[str, str]
    deprecated: tuple[str, ...]


def is_preset_name(preset: str) -> bool:
    """Return whether the name may stand for a model: a short name, or any `organisation/model`."""
    organisation, slash, model = preset.partition("/")
    return preset.lower() in _names().aliases or bool(organisation and slash and model)


def is_deprecated(preset: str) -> bool:
    """Return whether the name was that of a preset once."""
    return preset.lower() in _names().deprecated


def model_id(preset: str) -> str:
    """Return the model's id on Hugging Face in lower case; a name that is not short is one."""
    name = preset.lower()
    return _names().aliases.get(name, name).lower()


def find_model(preset: str) -> Model | None:
    """Return the model, if it needs no look-up."""
    return catalogue().get(model_id(preset))


@cache
def catalogue() -> dict[str, Model]:
    """Return the models that need no look-up, by their ids in lower case."""
    models = read_table("models.yaml", tuple[Model, ...])
    return {model.repository: model for model in models}


@cache
def _names() -> _Names:
    return read_table("preset_names.yaml", _Names)


# The model that the files of a repository on Hugging Face describe.
#
# A configuration may have any form: what cannot be read as a size counts as missing, as in Kaito.

# Source of keys and rules: kaito-project/kaito at 056b8280,
# presets/workspace/generator/{generator,model_catalog}.go.
_TOKEN_LIMIT: Final = (
    *("max_position_embeddings", "n_ctx", "seq_length"),
    *("max_seq_len", "max_sequence_length", "model_max_length"),
)
_HIDDEN_SIZE: Final = ("hidden_size", "n_embd", "d_model", "dim")
_LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers")
_HEADS: Final = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS: Final = ("num_key_value_heads", "n_head_kv", "n_kv_heads")
_HEAD_DIM: Final = ("head_dim", "attention_head_dim")
_NESTED: Final = ("text_config", "llm_config")
_UNNAMED: Final = {
    "mistral-large-3": "MistralLarge3ForCausalLM",
    "ministral-3": "Mistral3ForConditionalGeneration",
}
"""Architectures of models that name none, by the beginning of the name."""

_LARGEST_NUMBER: Final = 2**31
_LARGEST_WEIGHTS: Final = 8 * 1024 * GIB
"""More than any model has; a wrong size must not request thousands of nodes."""

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


class NotServable(ValueError):  # noqa: N818 - reads as what it says
    """A model that cannot be served; the message says why."""


class WeightFile(msgspec.Struct, frozen=True):
    """A file of a repository, as the API lists it."""

    path: str
    size: int = 0


def is_repository(name: str) -> bool:
    """Return whether a name may be that of a repository, and nothing else in an address."""
    return _ID.fullmatch(name) is not None and ".." not in name and "--" not in name


def model_from_files(name: str, files: Iterable[WeightFile], config: Mapping[str, Any]) -> Model:
    """Return the model of a repository.

    Raises:
        NotServable: it has no weights, sizes that no model has, or an architecture that vLLM does
            not serve.
    """
    weights, is_mistral = _weights(files)
    merged = _merged(config)
    found = mapping(config.get("quantization_config"))
    method = found.get("quant_method")
    model = Model(
        name=name.lower(),
        weights=f"{min(sum(each.size for each in weights), 2**60) / GIB:.2f}Gi",
        architectures=_architectures(name, merged),
        token_limit=_number(merged, _TOKEN_LIMIT) or 2048,
        hidden_size=_number(merged, _HIDDEN_SIZE),
        layers=_number(merged, _LAYERS) or len(_items(merged.get("layers_block_type"))),
        heads=_number(merged, _HEADS),
        kv_heads=_number(merged, _KV_HEADS) or int(merged.get("multi_query") is True),
        head_dim=_number(merged, _HEAD_DIM),
        kv_lora_rank=_number(merged, ("kv_lora_rank",)),
        qk_rope_head_dim=_number(merged, ("qk_rope_head_dim",)),
        quantization=method if isinstance(method, str) else "",
        quantization_bits=_number(found, ("bits",)),
        load_format="mistral" if is_mistral else "",
    )
    check_model(model)
    return model


def check_model(model: Model) -> None:
    """Check facts that a user has given.

    Raises:
        NotServable: no model has such facts, or vLLM does not serve it.
    """
    try:
        weights = model.weight_bytes
    except ValueError:
        weights = 0
    if not 0 < weights <= _LARGEST_WEIGHTS:
        raise NotServable(f"model {model.name} has weights of {model.weights}, as no model has")
    numbers = (model.token_limit, model.hidden_size, model.layers, model.heads, model.kv_heads)
    more = (model.head_dim, model.kv_lora_rank, model.qk_rope_head_dim, model.quantization_bits)
    if not all(0 <= each < _LARGEST_NUMBER for each in (*numbers, *more)):
        raise NotServable(f"model {model.name} has a size that no model has")
    if model.architectures and served_architectures().isdisjoint(model.architectures):
        names = ", ".join(model.architectures[:10])[:200]
        raise NotServable(f"unsupported model architecture for {model.name}: {names}")


@cache
def served_architectures() -> frozenset[str]:
    """Return the architectures that vLLM serves."""
    return frozenset(read_table("architectures.yaml", tuple[str, ...]))


def _weights(files: Iterable[WeightFile]) -> tuple[list[WeightFile], bool]:
    """Return the files that vLLM loads, and whether they are in Mistral's own format.

    Of two formats one is loaded. An index beside the files is counted too, as in Kaito.
    """
    tensors: list[WeightFile] = []
    binaries: list[WeightFile] = []
    mistral: list[WeightFile] = []
    for each in files:
        before, found, _ = each.path.partition(".safetensors")
        if found:
            tensors.append(each)
            if "consolidated" in before:
                mistral.append(each)
        elif ".bin" in each.path:
            binaries.append(each)
    return mistral or tensors or binaries, bool(mistral)


def _merged(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration, merged with that of a multimodal model's language model."""
    text, other = (mapping(config.get(key)) for key in _NESTED)
    return {**(text or other), **config}


def _number(config: Mapping[str, Any], keys: Iterable[str]) -> int:
    """Return the value of the first key that has a number; 0 if none has."""
    return next((found for key in keys if (found := _as_number(config.get(key)))), 0)


def _as_number(value: object) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) <= len(str(_LARGEST_NUMBER)):
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return max(int(value), 0)
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def _architectures(name: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    found = tuple(each for each in _items(config.get("architectures")) if isinstance(each, str))
    if found:
        return found
    short = name.lower().rpartition("/")[2]
    return tuple(each for prefix, each in _UNNAMED.items() if short.startswith(prefix))


def _items(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def write_model(model: Model) -> str:
    """Return the annotation with the facts about a model; what has its default is left out."""
    facts = msgspec.to_builtins(model)
    defaults = msgspec.to_builtins(Model(name="", weights=""))
    changed = {key: value for key, value in facts.items() if value != defaults[key]}
    return msgspec.json.encode(changed, order="sorted").decode()


def read_model(text: str | None, preset: str) -> Model | None:
    """Return the model of a preset; None if the text is about another one or implausible."""
    if not text:
        return None
    try:
        found = msgspec.json.decode(text, type=Model)
        check_model(found)
    except (msgspec.MsgspecError, NotServable):
        return None
    return found if found.repository == model_id(preset) else None

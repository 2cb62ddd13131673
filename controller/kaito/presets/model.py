"""A model: its size and shape, as its `config.json` gives them."""

from __future__ import annotations

from typing import Final

from controller.apimachinery.quantity import parse_quantity
from controller.kaito.presets.tables import Row

GIB: Final = 1024**3
_BYTES_PER_ELEMENT: Final = 2
"""The cache is counted in 16 bits, also for models that keep it in 8."""


class Model(Row, frozen=True):
    """A model of Hugging Face.

    Attributes:
        name: its id, `microsoft/phi-4`.
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
        return self._elements_per_token * self.layers * _BYTES_PER_ELEMENT

    @property
    def _elements_per_token(self) -> int:
        if self.kv_lora_rank:
            return self.kv_lora_rank + self.qk_rope_head_dim
        return 2 * self._cached_heads * self._head_dim

    @property
    def _cached_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def _head_dim(self) -> int:
        if self.head_dim or not self.heads:
            return self.head_dim
        return self.hidden_size // self.heads

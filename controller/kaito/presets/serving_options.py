"""Options of vLLM that depend on the model's name or architecture."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from controller.kaito.presets.tables import Row, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.presets.model import Model


class _Choice(Row, frozen=True):
    """One option: by the beginning of the name, else by architecture."""

    names: dict[str, str]
    architectures: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    never: tuple[str, ...] = ()

    def of(self, model: Model) -> str:
        """Return the value for a model, empty if there is none."""
        if model.short_name in self.never:
            return ""
        by_architecture = map(self.architectures.get, model.architectures)
        return by_longest_prefix(self.names, model.short_name) or next(
            filter(None, by_architecture), ""
        )


class _Needs(Row, frozen=True):
    """Architectures with special needs."""

    hybrid_cache: frozenset[str]
    no_host_cache: frozenset[str]
    deep_gemm: frozenset[str]


class _Options(Row, frozen=True):
    """`serving_options.yaml`."""

    reasoning_parser: _Choice
    tool_call_parser: _Choice
    chat_template: _Choice
    flags: dict[str, dict[str, str]]
    architectures: _Needs
    compiles_kernels: frozenset[str]


def reasoning_parser(model: Model) -> str:
    """Return the parser of the model's reasoning; empty if it does not reason."""
    return _options().reasoning_parser.of(model)


def tool_call_parser(model: Model) -> str:
    """Return the parser of its calls of tools; empty if there is none."""
    return _options().tool_call_parser.of(model)


def chat_template(model: Model) -> str:
    """Return the file of a chat template that replaces the model's own; empty to use its own."""
    return _options().chat_template.of(model)


def needed_flags(model: Model) -> dict[str, str]:
    """Return flags that this model needs, by name."""
    flags: dict[str, str] = {}
    for flag, by_prefix in _options().flags.items():
        value = by_longest_prefix(by_prefix, model.short_name)
        if value is not None:
            flags[flag] = value
    return flags


def may_offload_cache(model: Model) -> bool:
    """Return whether its cache may be kept in the host's memory too."""
    needs = _options().architectures
    return not _is_any(model, needs.hybrid_cache | needs.no_host_cache)


def needs_deep_gemm(model: Model) -> bool:
    """Return whether it runs only with DeepGEMM."""
    return _is_any(model, _options().architectures.deep_gemm)


def needs_cuda_toolkit(model: Model) -> bool:
    """Return whether it compiles kernels when it starts, for which the image lacks the compiler."""
    return needs_deep_gemm(model) or model.short_name in _options().compiles_kernels


def by_longest_prefix(table: Mapping[str, str], name: str) -> str | None:
    """Return the value of the longest key with which the name begins, None if there is none."""
    keys = [key for key in table if name.startswith(key)]
    return table[max(keys, key=len)] if keys else None


def _is_any(model: Model, architectures: frozenset[str]) -> bool:
    return not architectures.isdisjoint(model.architectures)


@cache
def _options() -> _Options:
    return read_table("serving_options.yaml", _Options)

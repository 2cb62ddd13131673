"""The command lines of the runtimes that serve models: vLLM and transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from controller.kaito.presets.gpus import MEMORY_UTILIZATION, NodeGPUs
from controller.kaito.presets.models import Model, Row, model_id, read_table


def with_flags(command: str, flags: Mapping[str, str]) -> str:
    """Return the command followed by `--name=value`, or by `--name` where the value is empty.

    Flags are sorted; Kaito writes them in the random order of Go's maps, so command lines are never
    compared with Kaito's.
    """
    words = [f"--{name}={flags[name]}" if flags[name] else f"--{name}" for name in sorted(flags)]
    return " ".join([command, *words])


def in_shell(command: str) -> list[str]:
    """Return the `command` of a container that runs this line."""
    return ["/bin/sh", "-c", command]


class _Choice(Row, frozen=True):
    """One option of vLLM: by the beginning of the model's name, else by its architecture."""

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


def needed_flags(model: Model) -> dict[str, str]:
    """Return flags that this model needs, by name."""
    tables = _options().flags.items()
    found = {flag: by_longest_prefix(each, model.short_name) for flag, each in tables}
    return {flag: value for flag, value in found.items() if value is not None}


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


# Source of commands and flags: kaito-project/kaito at 056b8280, pkg/model/interface.go and
# presets/workspace/models/{metadata,vllm_model}.go.
WEIGHTS_PATH: Final = "/workspace/weights"
CONFIG_FILE: Final = "/mnt/config/inference_config.yaml"
RAY_PORT: Final = 6379
_SERVE: Final = "python3 /workspace/vllm/inference_api.py"
_RAY: Final = "/workspace/vllm/multi-node-serving.sh"
_TEMPLATES: Final = "/workspace/chat_templates"
_UTILIZATION_OF: Final = {"NVIDIA A10": "0.82"}
"""The A10 has too little memory beside what vLLM accounts for."""

_NO_HOST_CACHE: Final = "kaito-kv-cache-cpu-memory-utilization"
_OPTIONAL: Final = re.compile(r" --(enable-lora|kaito-config-file=[^ ;]+)(?=[ ;]|$)")


class VllmSettings(msgspec.Struct, frozen=True):
    """Everything but the model that the command depends on.

    Attributes:
        nodes: number of pods, each with all GPUs of its node.
        leader_host: name of the first pod in the cluster's DNS; needed for several nodes only.
        served_name: name of the model in requests, empty for the model's own.
        local_weights: folder of the node that holds the weights; empty to download them.
        port: port at which vLLM listens, None for its own default.
    """

    gpus: NodeGPUs
    nodes: int = 1
    leader_host: str = ""
    served_name: str = ""
    with_adapters: bool = False
    with_config: bool = False
    performance_mode: str = "balanced"
    local_weights: str = ""
    port: int | None = None


def vllm_command(model: Model, settings: VllmSettings) -> list[str]:
    """Return the `command` of the container, the same for all of several nodes."""
    serve = with_flags(_SERVE, vllm_flags(model, settings))
    if settings.nodes == 1:
        return in_shell(serve)
    port = {"ray_port": str(RAY_PORT)}
    leader = with_flags(f"{_RAY} leader", {"ray_cluster_size": str(settings.nodes), **port})
    worker = with_flags(f"{_RAY} worker", {"ray_address": settings.leader_host, **port})
    return in_shell(f'if [ "${{POD_INDEX}}" = "0" ]; then {leader}; {serve}; else {worker}; fi')


def vllm_flags(model: Model, settings: VllmSettings) -> dict[str, str]:
    """Return the flags, by name; the value of a flag that takes none is empty."""
    flags = _flags_of_model(model)
    flags |= {
        "served-model-name": settings.served_name or model.short_name,
        "max-model-len": "auto",
        "gpu-memory-utilization": _UTILIZATION_OF.get(
            settings.gpus.product, str(MEMORY_UTILIZATION)
        ),
        "kv-events-config": """'{"enable_kv_cache_events":true}'""",
        "compilation-config.pass_config.fuse_allreduce_rms": "False",
    }
    if settings.with_adapters:
        flags["enable-lora"] = ""
    if settings.with_config:
        flags["kaito-config-file"] = CONFIG_FILE
    if settings.performance_mode not in {"", "balanced"}:
        flags["performance-mode"] = settings.performance_mode
    if settings.port is not None:
        flags["port"] = str(settings.port)
    needs = _options().architectures
    stays = _is_any(model, needs.hybrid_cache | needs.no_host_cache)
    if stays or settings.gpus.is_mig:  # the cache may not be kept in the host's memory too
        flags[_NO_HOST_CACHE] = "0"
    if settings.local_weights:
        del flags["load_format"]
        flags |= {"model": settings.local_weights, "load-format": "runai_streamer"}
    else:
        flags |= {"model": model.repository, "download-dir": WEIGHTS_PATH}
    return flags | _parallelism(model, settings)


def with_optional_flags(line: str, *, with_adapters: bool, with_config: bool) -> str:
    """Return the command line with the flags that an edit of the specification adds or removes.

    The rest stays as it is: it belongs to the image that it was written for (KAI-23). A line that
    has these flags already, or does not start vLLM as Kaito does, stays the same text.
    """
    program, found, arguments = line.partition(_SERVE)
    config = [f"kaito-config-file={CONFIG_FILE}"] if with_config else []
    wanted = [*(["enable-lora"] if with_adapters else []), *config]
    if not found or sorted(_OPTIONAL.findall(arguments)) == wanted:
        return line
    flags = "".join(f" --{flag}" for flag in wanted)
    return f"{program}{found}{flags}{_OPTIONAL.sub('', arguments)}"


def _flags_of_model(model: Model) -> dict[str, str]:
    load_format = model.load_format or "auto"
    flags = {
        "load_format": load_format,
        "config_format": model.config_format or load_format,
        "tokenizer_mode": model.tokenizer_mode or load_format,
        "trust-remote-code": "",
        "dtype": "auto" if model.quantization else "bfloat16",
    }
    flags |= needed_flags(model)
    options = _options()
    if parser := options.tool_call_parser.of(model):
        flags |= {"tool-call-parser": parser, "enable-auto-tool-choice": ""}
    if parser := options.reasoning_parser.of(model):
        flags["reasoning-parser"] = parser
    if template := options.chat_template.of(model):
        flags["chat-template"] = f"{_TEMPLATES}/{template}"
    return flags


def _parallelism(model: Model, settings: VllmSettings) -> dict[str, str]:
    """Return flags that spread the model: copies on GPUs, shards over GPUs, layers over nodes."""
    count = settings.gpus.count
    if settings.nodes > 1:
        return {
            "tensor-parallel-size": str(count),
            "pipeline-parallel-size": str(settings.nodes),
            "distributed-executor-backend": "ray",
            _NO_HOST_CACHE: "0",
        }
    if count > 1 and model.weight_bytes * count * 2 < settings.gpus.memory:
        return {
            "data-parallel-size": str(count),
            "tensor-parallel-size": "1",
            _NO_HOST_CACHE: "0",
        }
    return {"tensor-parallel-size": str(count)}


# Source of commands and flags: kaito-project/kaito at 056b8280, pkg/model/interface.go and
# presets/workspace/models/transformer_runtime_{inference,tuning}_parameters.go.
_LAUNCH: Final = "accelerate launch"
_LAUNCH_FLAGS: Final = {
    "num_processes": "1",
    "num_machines": "1",
    "machine_rank": "0",
    "gpu_ids": "all",
}
_SERVE_TRANSFORMERS: Final = "/workspace/tfs/inference_api.py"
_LAUNCH_TUNING: Final = f"cd /workspace/tfs/ && python3 metrics_server.py & {_LAUNCH}"
_TUNE: Final = "/workspace/tfs/fine_tuning.py"


class _Family(Row, frozen=True):
    """Models with the same flags."""

    flags: dict[str, str]
    models: tuple[str, ...]


class TunableModel(Row, frozen=True):
    """A model that can be tuned.

    Attributes:
        name: the last part of its id in lower case.
        weights_tag: tag of the image that holds the weights.
        weights_name: name of that image, empty for the model's name.
    """

    name: str
    weights_tag: str
    weights_name: str = ""


def serves_with_transformers(model: Model) -> bool:
    """Return whether this runtime serves the model."""
    return model.short_name in _flags()


def transformers_command(model: Model) -> list[str]:
    """Return the `command` of the container that serves the model.

    Raises:
        KeyError: this runtime does not serve it.
    """
    flags = _flags()[model.short_name] | {
        "served_model_name": model.short_name,
        "pretrained_model_name_or_path": model.repository,
        "allow_remote_files": "",
    }
    launch = with_flags(_LAUNCH, _LAUNCH_FLAGS)
    return in_shell(f"{launch} {with_flags(_SERVE_TRANSFORMERS, flags)}")


def tuning_command(gpus: int) -> list[str]:
    """Return the `command` of the container that tunes a model on so many GPUs."""
    return in_shell(f"{with_flags(_LAUNCH_TUNING, {'num_processes': str(gpus)})} {_TUNE}")


def find_tunable_model(preset: str) -> TunableModel | None:
    """Return the model that the name of a preset stands for, None if it cannot be tuned."""
    return tunable_models().get(model_id(preset).rpartition("/")[2])


@cache
def tunable_models() -> dict[str, TunableModel]:
    """Return the models that can be tuned, by the last part of their ids in lower case."""
    return {each.name: each for each in read_table("tuning.yaml", tuple[TunableModel, ...])}


@cache
def _flags() -> dict[str, dict[str, str]]:
    families = read_table("transformers.yaml", dict[str, _Family]).values()
    return {name: family.flags for family in families for name in family.models}

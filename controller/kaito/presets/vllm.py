"""The command that serves a model with vLLM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.presets.command_line import in_shell, with_flags
from controller.kaito.presets.serving_options import (
    chat_template,
    may_offload_cache,
    needed_flags,
    reasoning_parser,
    tool_call_parser,
)

if TYPE_CHECKING:
    from controller.kaito.presets.gpus import NodeGPUs
    from controller.kaito.presets.model import Model

# Source of commands and flags: kaito-project/kaito at 056b8280, pkg/model/interface.go and
# presets/workspace/models/{metadata,vllm_model}.go.
WEIGHTS_PATH: Final = "/workspace/weights"
CONFIG_FILE: Final = "/mnt/config/inference_config.yaml"
RAY_PORT: Final = 6379
_SERVE: Final = "python3 /workspace/vllm/inference_api.py"
_RAY: Final = "/workspace/vllm/multi-node-serving.sh"
_TEMPLATES: Final = "/workspace/chat_templates"
_UTILIZATION: Final = "0.84"
_UTILIZATION_OF: Final = {"NVIDIA A10": "0.82"}
"""The A10 has too little memory beside what vLLM accounts for."""

_NO_HOST_CACHE: Final = "kaito-kv-cache-cpu-memory-utilization"
_OPTIONAL: Final = re.compile(r" --(enable-lora|kaito-config-file=[^ ;]+)(?=[ ;]|$)")


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """Everything but the model that the command depends on.

    Attributes:
        gpus: GPUs of each node.
        nodes: number of pods, each with all GPUs of its node.
        leader_host: name of the first pod in the cluster's DNS; needed for several nodes only.
        served_name: name of the model in requests, empty for the model's own.
        with_adapters: whether adapters are loaded.
        with_config: whether a ConfigMap with further options is mounted.
        performance_mode: `balanced`, `interactivity` or `throughput`.
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
    port = str(RAY_PORT)
    leader = with_flags(
        f"{_RAY} leader", {"ray_cluster_size": str(settings.nodes), "ray_port": port}
    )
    worker = with_flags(f"{_RAY} worker", {"ray_address": settings.leader_host, "ray_port": port})
    return in_shell(f'if [ "${{POD_INDEX}}" = "0" ]; then {leader}; {serve}; else {worker}; fi')


def vllm_flags(model: Model, settings: VllmSettings) -> dict[str, str]:
    """Return the flags, by name; the value of a flag that takes none is empty."""
    flags = _flags_of_model(model)
    flags |= {
        "served-model-name": settings.served_name or model.short_name,
        "max-model-len": "auto",
        "gpu-memory-utilization": _UTILIZATION_OF.get(settings.gpus.product, _UTILIZATION),
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
    if not may_offload_cache(model) or settings.gpus.is_mig:
        flags[_NO_HOST_CACHE] = "0"
    _take_weights(flags, model, settings)
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
    if parser := tool_call_parser(model):
        flags |= {"tool-call-parser": parser, "enable-auto-tool-choice": ""}
    if parser := reasoning_parser(model):
        flags["reasoning-parser"] = parser
    if template := chat_template(model):
        flags["chat-template"] = f"{_TEMPLATES}/{template}"
    return flags


def _take_weights(flags: dict[str, str], model: Model, settings: VllmSettings) -> None:
    """Set where the weights come from."""
    if settings.local_weights:
        del flags["load_format"]
        flags |= {"model": settings.local_weights, "load-format": "runai_streamer"}
    else:
        flags |= {"model": model.repository, "download-dir": WEIGHTS_PATH}


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

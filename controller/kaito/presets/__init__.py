"""Knowledge about models and machines: tables with their sources, and pure functions of them."""

from __future__ import annotations

from controller.kaito.presets.catalogue import (
    catalogue,
    find_model,
    is_deprecated,
    is_preset_name,
    model_id,
)
from controller.kaito.presets.command_line import in_shell, with_flags
from controller.kaito.presets.estimator import DEFAULT_CONTEXT, DoesNotFit, estimate_nodes
from controller.kaito.presets.gpus import (
    NodeGPUs,
    UnknownGPUs,
    check_alike,
    gpus_of_node,
    gpus_of_slice,
)
from controller.kaito.presets.instance_types import (
    Cloud,
    InstanceType,
    find_instance_type,
    instance_type_names,
    may_be_provisioned,
)
from controller.kaito.presets.metadata import (
    NotServable,
    WeightFile,
    is_repository,
    model_from_files,
)
from controller.kaito.presets.model import Model
from controller.kaito.presets.serving_options import needs_cuda_toolkit, needs_deep_gemm
from controller.kaito.presets.sizing import DISK_OF_UNKNOWN_SIZE, disk_request, startup_seconds
from controller.kaito.presets.stored_model import read_model, write_model
from controller.kaito.presets.transformers import (
    TunableModel,
    find_tunable_model,
    serves_with_transformers,
    transformers_command,
    tunable_models,
    tuning_command,
)
from controller.kaito.presets.vllm import (
    RAY_PORT,
    WEIGHTS_PATH,
    VllmSettings,
    vllm_command,
    vllm_flags,
    with_optional_flags,
)

__all__ = [
    "DEFAULT_CONTEXT",
    "DISK_OF_UNKNOWN_SIZE",
    "RAY_PORT",
    "WEIGHTS_PATH",
    "Cloud",
    "DoesNotFit",
    "InstanceType",
    "Model",
    "NodeGPUs",
    "NotServable",
    "TunableModel",
    "UnknownGPUs",
    "VllmSettings",
    "WeightFile",
    "catalogue",
    "check_alike",
    "disk_request",
    "estimate_nodes",
    "find_instance_type",
    "find_model",
    "find_tunable_model",
    "gpus_of_node",
    "gpus_of_slice",
    "in_shell",
    "instance_type_names",
    "is_deprecated",
    "is_preset_name",
    "is_repository",
    "may_be_provisioned",
    "model_from_files",
    "model_id",
    "needs_cuda_toolkit",
    "needs_deep_gemm",
    "read_model",
    "serves_with_transformers",
    "startup_seconds",
    "transformers_command",
    "tunable_models",
    "tuning_command",
    "vllm_command",
    "vllm_flags",
    "with_flags",
    "with_optional_flags",
    "write_model",
]

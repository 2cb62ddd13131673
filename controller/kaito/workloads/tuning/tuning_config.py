"""The options of a tuning: a ConfigMap of the user's, or the default one of the method."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Final

import yaml

from controller.apimachinery.custom_object import dig
from controller.apimachinery.user_yaml import InvalidYaml
from controller.kaito.api.validation.config_maps import TRAINING_KEY, read_training_options
from controller.kube.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.workspace import TuningSpec
    from controller.kaito.workloads.pods.pod_parts import Body

# Source of names and values: kaito-project/kaito at 056b8280,
# charts/kaito/workspace/templates/{lora,qlora}-params.yaml, pkg/workspace/tuning/preset_tuning.go.
_BASE: Final = "/mnt"
_RESULTS: Final = "/mnt/output"
_QLORA: Final = "qlora"
_QUANTIZATION: Final[dict[str, dict[str, Any]]] = {
    "lora": {"load_in_4bit": False},
    _QLORA: {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_compute_dtype": "bfloat16",
        "bnb_4bit_use_double_quant": True,
    },
}
_OTHER_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "ModelConfig": {"torch_dtype": "bfloat16", "local_files_only": True, "device_map": "auto"},
    "LoraConfig": {"r": 8, "lora_alpha": 8, "lora_dropout": 0.0},
    "TrainingArguments": {
        "output_dir": "/mnt/results",
        "ddp_find_unused_parameters": False,
        "save_strategy": "no",
        "per_device_train_batch_size": 1,
    },
    "DataCollator": {"mlm": True},
    "DatasetConfig": {"shuffle_dataset": True, "train_test_split": 1},
}


def config_name(tuning: TuningSpec) -> str:
    """Return the name of the ConfigMap: the user's, else that of the method."""
    return tuning.config or f"{_method(tuning)}-params-template"


def default_config_map(tuning: TuningSpec, namespace: str) -> Body:
    """Return the ConfigMap that is created where the user names none and the namespace has none.

    It has no owner: all Workspaces of the namespace share it, and users may edit it.
    """
    options = {"QuantizationConfig": _QUANTIZATION[_method(tuning)], **_OTHER_OPTIONS}
    text = yaml.safe_dump({"training_config": options}, sort_keys=True)
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {"name": config_name(tuning), "namespace": namespace},
        "data": {TRAINING_KEY: text},
    }


def results_folder(data: Mapping[str, str] | None) -> str:
    """Return the folder to which the tuning writes, from the data of its ConfigMap.

    It is below `/mnt` always; what is not, or cannot be read, becomes the default.
    """
    try:
        options = read_training_options((data or {}).get(TRAINING_KEY, ""))
    except InvalidYaml:
        return _RESULTS
    folder = dig(options, "training_config", "TrainingArguments", "output_dir")
    if not isinstance(folder, str) or not folder:
        return _RESULTS
    joined = folder if folder.startswith(_BASE) else f"{_BASE}/{folder}"
    clean = posixpath.normpath(joined)
    return clean if clean.startswith(f"{_BASE}/") else _RESULTS


def _method(tuning: TuningSpec) -> str:
    """Return `lora` or `qlora`; Kaito finds no default for a method with capital letters."""
    return _QLORA if tuning.method.lower() == _QLORA else "lora"

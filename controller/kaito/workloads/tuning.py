"""The Job that tunes a model, and its configuration."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

import yaml
from msgspec import Struct

from controller.apimachinery.custom_object import dig
from controller.apimachinery.user_yaml import InvalidYaml, go_json
from controller.kaito.api import labels
from controller.kaito.api.config_maps import TRAINING_KEY, read_options
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.revisions import Revision
from controller.kaito.api.workspace import (
    Body,
    DataDestination,
    DataSource,
    Preset,
    TuningSpec,
    WorkspaceSpec,
    child,
)
from controller.kaito.presets.gpus import NodeGPUs
from controller.kaito.presets.runtimes import WEIGHTS_PATH, TunableModel, tuning_command
from controller.kaito.workloads import pods
from controller.kaito.workloads.pods import PodParts, as_list, variable
from controller.kaito.workloads.server import SERVER_PORT
from controller.kube.objects import ObjectMeta
from controller.kube.resources import CONFIG_MAPS, JOBS

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
        options = read_options((data or {}).get(TRAINING_KEY, ""))
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


# Source of names and values: kaito-project/kaito at 056b8280,
# pkg/workspace/tuning/preset_tuning.go.
_PHI_3_MODULES: Final = "k_proj,q_proj,v_proj,o_proj,gate_proj,down_proj,up_proj"
_MODEL_NAME: Final = "sh.kaito.model.name"


class Tuning(Struct, frozen=True):
    """The facts about the model, the nodes and the options when the job is created.

    Attributes:
        results: folder to which it writes, `results_folder` of the ConfigMap's data.
    """

    model: TunableModel
    gpus: NodeGPUs
    results: str
    revision: Revision


def tuning_job(
    workspace: ObjectMeta, spec: WorkspaceSpec, tuning: Tuning, options: KaitoOptions
) -> Body:
    """Return the body of the Job: it downloads weights and data, trains, and pushes the adapter."""
    assert spec.tuning is not None
    own_labels = {labels.WORKSPACE: workspace.name}
    annotations = tuning.revision.annotations
    pod = _pod_spec(workspace, spec, tuning, options)
    template = {"metadata": {"labels": dict(own_labels)}, "spec": pod}
    return {
        **child(JOBS, workspace, workspace.name, own_labels=own_labels, annotations=annotations),
        "spec": {"template": template},
    }


def _pod_spec(
    workspace: ObjectMeta, spec: WorkspaceSpec, tuning: Tuning, options: KaitoOptions
) -> Body:
    assert spec.tuning is not None
    output = spec.tuning.output or DataDestination()
    results = pods.results_volume(tuning.results, output.volume)
    parts = (
        pods.shared_memory()
        + _weights(tuning, options)
        + pods.config_volume(config_name(spec.tuning))
        + results
        + _input(spec.tuning.input or DataSource())
    )
    pushes = bool(output.image) and output.volume is None
    secret = pods.push_secret(output.image_push_secret) if pushes else PodParts()
    trainer = pods.container(
        workspace.name,
        pods.base_image(options),
        command=tuning_command(tuning.gpus.count),
        ports=[{"containerPort": SERVER_PORT}],
        env=_env(spec.tuning.preset or Preset()),
        resources=pods.gpu_request(pods.GPU, tuning.gpus.count),
        volumeMounts=as_list(parts.mounts),
    )
    pod: Body = {
        "initContainers": as_list(parts.init_containers),
        "containers": [trainer],
        "restartPolicy": "Never",
        **pods.node_affinity([pods.node_requirements(spec.resource)]),
        "tolerations": pods.tuning_tolerations(options),
        "volumes": as_list((parts + secret).volumes),
    }
    if pushes:
        pod["containers"].append(_pusher(spec.tuning, output, tuning.results, secret + results))
        pod["imagePullSecrets"] = [{"name": output.image_push_secret}]
        pod["shareProcessNamespace"] = True
    return pod


def _weights(tuning: Tuning, options: KaitoOptions) -> PodParts:
    """Return the model's weights, which come as an image."""
    model = tuning.model
    name = model.weights_name or model.name
    image = f"{options.preset_registry}/kaito-{name}:{model.weights_tag}"
    mounted = pods.weights_on_the_system_disk() + pods.weights_mount()
    downloader = pods.container(
        "model-weights-downloader",
        pods.WEIGHTS_DOWNLOADER,
        command=["oras", "pull", image, "-o", WEIGHTS_PATH],
        volumeMounts=as_list(mounted.mounts),
    )
    return mounted + PodParts(init_containers=(downloader,))


def _input(source: DataSource) -> PodParts:
    """Return the data: pulled, downloaded, or on a volume."""
    if source.image:
        secrets = pods.pull_secrets(f"{source.name}-tuning-input", source.image_pull_secrets)
        mounted = secrets + pods.data_volume()
        # what the image has in its folder data
        pulls = pods.puller("puller", source.image, f"{pods.DATA_PATH}/data", mounted)
        return mounted + PodParts(init_containers=(pulls,))
    if source.urls:
        mounted = pods.data_volume()
        return mounted + PodParts(init_containers=(_downloader(source, mounted),))
    return pods.data_volume(source.volume) if source.volume is not None else PodParts()


def _downloader(source: DataSource, mounted: PodParts) -> Body:
    return pods.container(
        "data-downloader",
        pods.DOWNLOADER,
        command=["sh", "-c", pods.script("download.sh")],
        env=[
            variable("DATA_URLS", " ".join(source.urls)),
            variable("DATA_VOLUME_PATH", pods.DATA_PATH),
        ],
        volumeMounts=as_list(mounted.mounts),
    )


def _pusher(tuning: TuningSpec, output: DataDestination, results: str, mounted: PodParts) -> Body:
    """Return the container that waits for the end of the training and pushes its result.

    Kaito adds one that pauses for ever, with which the job would never end.
    """
    name = tuning.preset.name if tuning.preset else ""
    line = pods.script(
        "push.sh",
        results=results,
        image=pods.complete_reference(output.image),
        annotations=go_json({"$manifest": {_MODEL_NAME: name}}, sort_keys=True),
    )
    return pods.container(
        "pusher",
        pods.PUSHER,
        command=["/bin/sh", "-c"],
        args=[line],
        volumeMounts=as_list(mounted.mounts),
    )


def _env(preset: Preset) -> list[Body]:
    is_phi_3 = preset.name.lower().startswith("phi-3")
    modules = [variable("DEFAULT_TARGET_MODULES", _PHI_3_MODULES)] if is_phi_3 else []
    return [*modules, variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")]

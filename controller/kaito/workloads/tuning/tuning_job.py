"""The Job that tunes a model: it downloads weights and data, trains, and pushes the adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.go_encoding import go_json
from controller.kaito.api import labels
from controller.kaito.api.workspace import DataDestination, DataSource, Preset
from controller.kaito.presets import WEIGHTS_PATH, tuning_command
from controller.kaito.workloads.identity import child
from controller.kaito.workloads.inference.server import SERVER_PORT
from controller.kaito.workloads.pods import volumes
from controller.kaito.workloads.pods.adapters import puller
from controller.kaito.workloads.pods.images import (
    DOWNLOADER,
    PUSHER,
    WEIGHTS_DOWNLOADER,
    base_image,
    complete_reference,
    weights_image,
)
from controller.kaito.workloads.pods.pod_parts import PodParts, as_list, container, variable
from controller.kaito.workloads.pods.scheduling import (
    GPU,
    gpu_request,
    node_affinity,
    node_requirements,
    tuning_tolerations,
)
from controller.kaito.workloads.scripts import script
from controller.kaito.workloads.tuning.tuning_config import config_name
from controller.kube.resources import JOBS

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import TuningSpec, WorkspaceSpec
    from controller.kaito.presets import NodeGPUs, TunableModel
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kaito.workloads.revisions.revision import Revision
    from controller.kube.objects import ObjectMeta

# Source of names and values: kaito-project/kaito at 056b8280,
# pkg/workspace/tuning/preset_tuning.go.
_PHI_3: Final = "phi-3"
_PHI_3_MODULES: Final = "k_proj,q_proj,v_proj,o_proj,gate_proj,down_proj,up_proj"
_MODEL_NAME: Final = "sh.kaito.model.name"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The facts about the model, the nodes and the options when the job is created.

    Attributes:
        model: the model of the preset.
        gpus: GPUs of the node.
        results: folder to which it writes, `results_folder` of the ConfigMap's data.
        revision: revision of the Workspace.
    """

    model: TunableModel
    gpus: NodeGPUs
    results: str
    revision: Revision


def tuning_job(
    workspace: ObjectMeta, spec: WorkspaceSpec, tuning: Tuning, options: KaitoOptions
) -> Body:
    """Return the body that is created for a Workspace that tunes."""
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
    results = volumes.results_volume(tuning.results, output.volume)
    parts = (
        volumes.shared_memory()
        + _weights(tuning, options)
        + volumes.config_volume(config_name(spec.tuning))
        + results
        + _input(spec.tuning.input or DataSource())
    )
    pushes = bool(output.image) and output.volume is None
    secret = volumes.push_secret(output.image_push_secret) if pushes else PodParts()
    trainer = container(
        workspace.name,
        base_image(options),
        command=tuning_command(tuning.gpus.count),
        ports=[{"containerPort": SERVER_PORT}],
        env=_env(spec.tuning.preset or Preset()),
        resources=gpu_request(GPU, tuning.gpus.count),
        volumeMounts=as_list(parts.mounts),
    )
    pod: Body = {
        "initContainers": as_list(parts.init_containers),
        "containers": [trainer],
        "restartPolicy": "Never",
        **node_affinity([node_requirements(spec.resource)]),
        "tolerations": tuning_tolerations(options),
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
    image = weights_image(model.weights_name or model.name, model.weights_tag, options)
    mounted = volumes.weights_on_the_system_disk() + volumes.weights_mount()
    downloader = container(
        "model-weights-downloader",
        WEIGHTS_DOWNLOADER,
        command=["oras", "pull", image, "-o", WEIGHTS_PATH],
        volumeMounts=as_list(mounted.mounts),
    )
    return mounted + PodParts(init_containers=(downloader,))


def _input(source: DataSource) -> PodParts:
    """Return the data: pulled, downloaded, or on a volume."""
    if source.image:
        secrets = volumes.pull_secrets(f"{source.name}-tuning-input", source.image_pull_secrets)
        mounted = secrets + volumes.data_volume()
        # what the image has in its folder data
        pulls = puller("puller", source.image, f"{volumes.DATA_PATH}/data", mounted)
        return mounted + PodParts(init_containers=(pulls,))
    if source.urls:
        mounted = volumes.data_volume()
        return mounted + PodParts(init_containers=(_downloader(source, mounted),))
    return volumes.data_volume(source.volume) if source.volume is not None else PodParts()


def _downloader(source: DataSource, mounted: PodParts) -> Body:
    return container(
        "data-downloader",
        DOWNLOADER,
        command=["sh", "-c", script("download.sh")],
        env=[
            variable("DATA_URLS", " ".join(source.urls)),
            variable("DATA_VOLUME_PATH", volumes.DATA_PATH),
        ],
        volumeMounts=as_list(mounted.mounts),
    )


def _pusher(tuning: TuningSpec, output: DataDestination, results: str, mounted: PodParts) -> Body:
    """Return the container that waits for the end of the training and pushes its result.

    Kaito adds one that pauses for ever, with which the job would never end.
    """
    name = tuning.preset.name if tuning.preset else ""
    line = script(
        "push.sh",
        results=results,
        image=complete_reference(output.image),
        annotations=go_json({"$manifest": {_MODEL_NAME: name}}, sort_keys=True),
    )
    return container(
        "pusher",
        PUSHER,
        command=["/bin/sh", "-c"],
        args=[line],
        volumeMounts=as_list(mounted.mounts),
    )


def _env(preset: Preset) -> list[Body]:
    is_phi_3 = preset.name.lower().startswith(_PHI_3)
    modules = [variable("DEFAULT_TARGET_MODULES", _PHI_3_MODULES)] if is_phi_3 else []
    return [*modules, variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")]

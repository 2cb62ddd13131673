"""The schemas of Workspaces and InferenceSets, as in Kaito's definitions: every field of Kaito's.

Nothing converts between the versions, so both have all fields: with Kaito's definitions a write
under v1alpha1 loses those that are newer (KAI-19).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.apimachinery.core_schemas import conditions, label_selector
from controller.apimachinery.schema import (
    Schema,
    anything,
    array,
    boolean,
    int32,
    map_of,
    string,
    strings,
    struct,
    time,
    words,
)


def _integer(description: str, **more: int) -> Schema:
    return {"description": description, "type": "integer", **more}


def _source(description: str) -> Schema:
    return struct(
        description,
        {
            "image": string("Image that holds it, in the folder data."),
            "imagePullSecrets": words("Names of the Secrets for that."),
            "name": string("Its name, which a container gets too."),
            "urls": words("Addresses to download it from."),
            "volumeSource": anything(
                "Volume that holds it: `kubectl explain pod.spec.volumes` lists its fields."
            ),
        },
    )


_PARTITION: Final = struct(
    "The part of a node's GPUs that a pod gets, on nodes of your own.",
    {
        "count": _integer("Number of GPUs, for the mode accelerator.", minimum=1),
        "mode": string(
            "mig for a slice of one GPU, accelerator for some GPUs.", enum=["mig", "accelerator"]
        ),
        "profile": string("The slice, such as 1g.10gb, for the mode mig."),
    },
    required=["mode"],
)
_PRESET_OPTIONS: Final = struct(
    "Options of the preset.",
    {
        "image": string("Ignored; all models are served by one image."),
        "imagePullSecrets": words("Ignored."),
        "modelAccessSecret": string("Name of a Secret with a token, key HF_TOKEN."),
    },
)
_PRESET: Final = struct(
    "A model with all its options.",
    {
        "accessMode": string("Ignored.", enum=["public", "private"], default="public"),
        "name": string("A short name, or the id of a model on Hugging Face."),
        "presetOptions": _PRESET_OPTIONS,
    },
    required=["name"],
)
_ADAPTER: Final = struct(
    "An adapter of the model's weights.",
    {
        "source": _source("Where it is."),
        "strength": string("How strongly it is applied: a number from 0 to 1."),
    },
)
_INFERENCE: Final = struct(
    "The model to serve: a preset, or a pod template of your own.",
    {
        "adapters": array("Adapters of the preset.", _ADAPTER),
        "config": string("Name of a ConfigMap with options, key inference_config.yaml."),
        "preset": _PRESET,
        "template": anything(
            "Template of the pods, instead of a preset. Fields are kept as they are: `kubectl "
            "explain pod.metadata` and `kubectl explain pod.spec` list them, and the condition "
            "FieldsKnown names those that do not exist."
        ),
    },
)
_OUTPUT: Final = struct(
    "Where the result goes: a volume or an image.",
    {
        "image": string("Image that it is pushed to."),
        "imagePushSecret": string("Name of the Secret for that."),
        "volumeSource": anything(
            "Volume that it is written to: `kubectl explain pod.spec.volumes` lists its fields."
        ),
    },
)
_TUNING: Final = struct(
    "The model to tune.",
    {
        "config": string("Name of a ConfigMap with options, key training_config.yaml."),
        "input": _source("The data."),
        "method": string("lora or qlora."),
        "output": _OUTPUT,
        "preset": _PRESET,
    },
    required=["input", "output"],
)
_OLD_DEFAULT: Final = {"default": "Standard_NC24ads_A100_v4"}
"""Kaito's default instance type in v1alpha1, which v1beta1 lacks."""


def workspace_fields(version: str) -> Mapping[str, Schema]:
    """Return the fields beside `metadata` and `status` in a version."""
    resource = struct(
        "The nodes of the workload.",
        {
            "count": _integer("Number of nodes, where it is not estimated.", default=1),
            "instanceType": string(
                "Instance type of the nodes; empty where nodes are not provisioned.",
                **(_OLD_DEFAULT if version == "v1alpha1" else {}),
            ),
            "labelSelector": label_selector("Labels that the nodes must have."),
            "partition": _PARTITION,
            "preferredNodes": words("Ignored; Kaito ignores it too."),
        },
        required=["labelSelector"],
    )
    return {"inference": _INFERENCE, "resource": resource, "tuning": _TUNING}


_METRIC: Final = struct(
    "One measurement.",
    {
        "config": strings("How it was measured."),
        "description": string("What was measured."),
        "unit": string("Unit of the value."),
        "value": string("The value."),
    },
    required=["description", "value"],
)
_PERFORMANCE: Final = struct(
    "What was measured after the model was loaded.",
    {"metrics": map_of("Measurements, by name.", _METRIC)},
)
WORKSPACE_STATUS: Final = struct(
    "The observed state of the workspace.",
    {
        "conditions": conditions("the workspace"),
        "performance": _PERFORMANCE,
        "state": string("Pending, Ready, NotReady, Running, Succeeded or Failed."),
        "targetNodeCount": int32("Number of nodes that the workload needs."),
        "workerNodes": words("Nodes that run the workload."),
    },
)

_WINDOW: Final = struct(
    "When workspaces may be upgraded.",
    {
        "duration": string("How long it is open.", default="4h"),
        "schedule": string("When it opens: five fields of cron, UTC."),
    },
    required=["schedule"],
)
_AUTO_UPGRADE: Final = struct(
    "Whether workspaces get the image of a newer operator.",
    {
        "enabled": boolean("Whether they do.", default=False),
        "maintenanceWindow": _WINDOW,
        "strategy": string(
            "InPlace restarts the pods, Surge creates a workspace before it deletes one.",
            enum=["InPlace", "Surge"],
            default="InPlace",
        ),
    },
)
_TEMPLATE_RESOURCE: Final = struct(
    "The nodes of each workspace.",
    {
        "instanceType": string("Their instance type; empty where nodes are not provisioned."),
        "partition": _PARTITION,
    },
)
SET_TEMPLATE: Final = struct(
    "The workspaces, which are alike.",
    {
        "inference": _INFERENCE,
        "metadata": anything("Labels and annotations of the workspaces."),
        "resource": _TEMPLATE_RESOURCE,
    },
    required=["inference"],
)
SET_SPEC: Final = struct(
    "Copies of a workspace.",
    {
        "autoUpgrade": _AUTO_UPGRADE,
        "labelSelector": label_selector("Labels that the nodes of all workspaces must have."),
        "nodeCountLimit": _integer("Most nodes of all workspaces together; 0 for no limit."),
        "replicas": int32("Number of workspaces.", default=1, minimum=0),
        "template": SET_TEMPLATE,
        "updateStrategy": anything("How workspaces are replaced.")
        | {"default": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
    },
    required=["labelSelector", "template"],
)
_UPGRADED: Final = struct(
    "How far workspaces have the operator's image.",
    {
        "lastSuccessfulUpgradeTime": time("When the last one was upgraded."),
        "numDriftedWorkspaces": _integer("How many have another image."),
    },
)
SET_STATUS: Final = struct(
    "The observed state of the workspaces.",
    {
        "autoUpgrade": _UPGRADED,
        "conditions": conditions("the set"),
        "performance": _PERFORMANCE,
        "readyReplicas": _integer("Workspaces that are ready."),
        "replicas": _integer("Workspaces that are asked for."),
        "selector": string("Selector of the pods, for autoscalers."),
    },
)

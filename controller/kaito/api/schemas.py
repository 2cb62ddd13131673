"""The schemas of Workspaces and InferenceSets, as in Kaito's definitions."""

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

# The schema of a Workspace: every field of Kaito's.
#
# Nothing converts between the versions, so both have all fields: with Kaito's definitions a write
# under v1alpha1 loses those that are newer (KAI-19).

_OLD_INSTANCE_TYPE: Final = "Standard_NC24ads_A100_v4"
"""Kaito's default in v1alpha1, which v1beta1 lacks."""


def workspace_fields(version: str) -> Mapping[str, Schema]:
    """Return the fields beside `metadata` and `status` in a version."""
    return {
        "inference": inference_spec(),
        "resource": _resource_spec(version),
        "tuning": _tuning_spec(),
    }


def partition() -> Schema:
    """Return the schema of `partition` of the resources."""
    return struct(
        "The part of a node's GPUs that a pod gets, on nodes of your own.",
        {
            "count": _integer("Number of GPUs, for the mode accelerator.", minimum=1),
            "mode": string(
                "mig for a slice of one GPU, accelerator for some GPUs.",
                enum=["mig", "accelerator"],
            ),
            "profile": string("The slice, such as 1g.10gb, for the mode mig."),
        },
        required=["mode"],
    )


def inference_spec() -> Schema:
    """Return the schema of `inference`."""
    adapter = struct(
        "An adapter of the model's weights.",
        {
            "source": _source("Where it is."),
            "strength": string("How strongly it is applied: a number from 0 to 1."),
        },
    )
    return struct(
        "The model to serve: a preset, or a pod template of your own.",
        {
            "adapters": array("Adapters of the preset.", adapter),
            "config": string("Name of a ConfigMap with options, key inference_config.yaml."),
            "preset": _preset(),
            "template": anything(
                "Template of the pods, instead of a preset. Fields are kept as they are: `kubectl "
                "explain pod.metadata` and `kubectl explain pod.spec` list them, and the condition "
                "FieldsKnown names those that do not exist."
            ),
        },
    )


def workspace_status() -> Schema:
    """Return the schema of `status`."""
    return struct(
        "The observed state of the workspace.",
        {
            "conditions": conditions("the workspace"),
            "performance": performance(),
            "state": string("Pending, Ready, NotReady, Running, Succeeded or Failed."),
            "targetNodeCount": int32("Number of nodes that the workload needs."),
            "workerNodes": words("Nodes that run the workload."),
        },
    )


def performance() -> Schema:
    """Return the schema of `status.performance`."""
    metric = struct(
        "One measurement.",
        {
            "config": strings("How it was measured."),
            "description": string("What was measured."),
            "unit": string("Unit of the value."),
            "value": string("The value."),
        },
        required=["description", "value"],
    )
    return struct(
        "What was measured after the model was loaded.",
        {"metrics": map_of("Measurements, by name.", metric)},
    )


def _resource_spec(version: str) -> Schema:
    default = {"default": _OLD_INSTANCE_TYPE} if version == "v1alpha1" else {}
    return struct(
        "The nodes of the workload.",
        {
            "count": _integer("Number of nodes, where it is not estimated.", default=1),
            "instanceType": string(
                "Instance type of the nodes; empty where nodes are not provisioned.", **default
            ),
            "labelSelector": label_selector("Labels that the nodes must have."),
            "partition": partition(),
            "preferredNodes": words("Ignored; Kaito ignores it too."),
        },
        required=["labelSelector"],
    )


def _preset() -> Schema:
    options = struct(
        "Options of the preset.",
        {
            "image": string("Ignored; all models are served by one image."),
            "imagePullSecrets": words("Ignored."),
            "modelAccessSecret": string("Name of a Secret with a token, key HF_TOKEN."),
        },
    )
    return struct(
        "A model with all its options.",
        {
            "accessMode": string("Ignored.", enum=["public", "private"], default="public"),
            "name": string("A short name, or the id of a model on Hugging Face."),
            "presetOptions": options,
        },
        required=["name"],
    )


def _tuning_spec() -> Schema:
    output = struct(
        "Where the result goes: a volume or an image.",
        {
            "image": string("Image that it is pushed to."),
            "imagePushSecret": string("Name of the Secret for that."),
            "volumeSource": anything(
                "Volume that it is written to: `kubectl explain pod.spec.volumes` lists its fields."
            ),
        },
    )
    return struct(
        "The model to tune.",
        {
            "config": string("Name of a ConfigMap with options, key training_config.yaml."),
            "input": _source("The data."),
            "method": string("lora or qlora."),
            "output": output,
            "preset": _preset(),
        },
        required=["input", "output"],
    )


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


def _integer(description: str, **more: int) -> Schema:
    return {"description": description, "type": "integer", **more}


# The schema of an InferenceSet: every field of Kaito's.


def inference_set_spec() -> Schema:
    """Return the schema of `spec`."""
    resource = struct(
        "The nodes of each workspace.",
        {
            "instanceType": string("Their instance type; empty where nodes are not provisioned."),
            "partition": partition(),
        },
    )
    template = struct(
        "The workspaces, which are alike.",
        {
            "inference": inference_spec(),
            "metadata": anything("Labels and annotations of the workspaces."),
            "resource": resource,
        },
        required=["inference"],
    )
    return struct(
        "Copies of a workspace.",
        {
            "autoUpgrade": _auto_upgrade(),
            "labelSelector": label_selector("Labels that the nodes of all workspaces must have."),
            "nodeCountLimit": _count("Most nodes of all workspaces together; 0 for no limit."),
            "replicas": int32("Number of workspaces.", default=1, minimum=0),
            "template": template,
            "updateStrategy": anything("How workspaces are replaced.")
            | {"default": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
        },
        required=["labelSelector", "template"],
    )


def inference_set_status() -> Schema:
    """Return the schema of `status`."""
    auto_upgrade = struct(
        "How far workspaces have the operator's image.",
        {
            "lastSuccessfulUpgradeTime": time("When the last one was upgraded."),
            "numDriftedWorkspaces": _count("How many have another image."),
        },
    )
    return struct(
        "The observed state of the workspaces.",
        {
            "autoUpgrade": auto_upgrade,
            "conditions": conditions("the set"),
            "performance": performance(),
            "readyReplicas": _count("Workspaces that are ready."),
            "replicas": _count("Workspaces that are asked for."),
            "selector": string("Selector of the pods, for autoscalers."),
        },
    )


def _auto_upgrade() -> Schema:
    window = struct(
        "When workspaces may be upgraded.",
        {
            "duration": string("How long it is open.", default="4h"),
            "schedule": string("When it opens: five fields of cron, UTC."),
        },
        required=["schedule"],
    )
    return struct(
        "Whether workspaces get the image of a newer operator.",
        {
            "enabled": boolean("Whether they do.", default=False),
            "maintenanceWindow": window,
            "strategy": string(
                "InPlace restarts the pods, Surge creates a workspace before it deletes one.",
                enum=["InPlace", "Surge"],
                default="InPlace",
            ),
        },
    )


def _count(description: str) -> Schema:
    return {"description": description, "type": "integer"}

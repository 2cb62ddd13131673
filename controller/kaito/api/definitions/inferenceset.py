"""The schema of an InferenceSet: every field of Kaito's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.schemas.core_schemas import conditions, label_selector
from controller.apimachinery.schemas.schema import anything, boolean, int32, string, struct, time
from controller.kaito.api.definitions.workspace import inference_spec, partition, performance

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema


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
            "nodeCountLimit": _integer("Most nodes of all workspaces together; 0 for no limit."),
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
            "numDriftedWorkspaces": _integer("How many have another image."),
        },
    )
    return struct(
        "The observed state of the workspaces.",
        {
            "autoUpgrade": auto_upgrade,
            "conditions": conditions("the set"),
            "performance": performance(),
            "readyReplicas": _integer("Workspaces that are ready."),
            "replicas": _integer("Workspaces that are asked for."),
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


def _integer(description: str) -> Schema:
    return {"description": description, "type": "integer"}

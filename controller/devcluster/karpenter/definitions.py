"""A minimal CustomResourceDefinition of Karpenter's NodeClaims.

It has the rules on which writers of claims depend: what is required, the default of `expireAfter`,
and that a specification never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.schemas.core_schemas import conditions
from controller.apimachinery.schemas.definition import definition, served_version
from controller.apimachinery.schemas.schema import anything, array, string, strings, struct, words

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema

_COLUMNS: Final = (
    ("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type", 0),
    ("Node", "string", ".status.nodeName", 0),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)


def node_claim_definition() -> dict[str, Any]:
    """Return the definition, ready to be created."""
    version = served_version("v1", _schema(), _COLUMNS, is_stored=True)
    found = definition("karpenter.sh", "NodeClaim", version, category="karpenter")
    found["spec"]["scope"] = "Cluster"
    return found


def _schema() -> Schema:
    metadata: Schema = {"type": "object"}
    fields: dict[str, Schema] = {
        "apiVersion": string("Version of the schema."),
        "kind": string("Kind of the object."),
        "metadata": metadata,
        "spec": _spec(),
        "status": _status(),
    }
    return struct("A node that is asked for.", fields, required=["spec"])


def _spec() -> Schema:
    reference = struct(
        "The class of the node.",
        {
            "group": string("Group of the class.", minLength=1),
            "kind": string("Kind of the class.", minLength=1),
            "name": string("Name of the class.", minLength=1),
        },
        required=["group", "kind", "name"],
    )
    requirement = struct(
        "A label that the node must have.",
        {
            "key": string("Its key."),
            "operator": string(
                "Operator.", enum=["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
            ),
            "values": words("Values."),
        },
        required=["key", "operator"],
    )
    spec = struct(
        "The node.",
        {
            "expireAfter": string("Age at which the node is replaced.", default="720h"),
            "nodeClassRef": reference,
            "requirements": array("Labels that it must have.", requirement),
            "resources": struct("What it must have room for.", {"requests": strings("Requests.")}),
            "startupTaints": array("Taints at first.", anything("A taint.")),
            "taints": array("Taints.", anything("A taint.")),
            "terminationGracePeriod": string("Time to drain it."),
        },
        required=["nodeClassRef", "requirements"],
    )
    rule = {"rule": "self == oldSelf", "message": "spec is immutable"}
    return {**spec, "x-kubernetes-validations": [rule]}


def _status() -> Schema:
    return struct(
        "What has become of it.",
        {
            "conditions": conditions("the claim"),
            "imageID": string("Image of the node."),
            "nodeName": string("Name of the node."),
            "providerID": string("The machine."),
        },
    )

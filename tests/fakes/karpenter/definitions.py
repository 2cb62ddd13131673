"""Minimal definitions of Karpenter's NodePools, and of the NodeClasses of a provider.

They have the rules on which writers depend: what is required, and the default of `expireAfter`.
"""

from __future__ import annotations

from typing import Any

from controller.apimachinery.core_schemas import conditions
from controller.apimachinery.schema import (
    Schema,
    anything,
    array,
    definition,
    int64,
    served_version,
    string,
    strings,
    struct,
    words,
)
from controller.kaito.api.karpenter import NodeClassSettings


def node_pool_definition(*, is_static: bool = True) -> dict[str, Any]:
    """The definition of NodePools; an old one has no `replicas`."""
    fields = {
        "template": _template(),
        "disruption": anything("When nodes are replaced."),
        **({"replicas": int64("Number of nodes.", minimum=0)} if is_static else {}),
    }
    spec = struct("The nodes.", fields, required=["template"])
    return _cluster_wide("karpenter.sh", "v1", "NodePool", spec, "")


def node_class_definition(classes: NodeClassSettings) -> dict[str, Any]:
    """The definition of a provider's NodeClasses, of whose specification nothing is known."""
    spec = anything("The machines.")
    return _cluster_wide(classes.group, classes.version, classes.kind, spec, classes.plural)


def _template() -> Schema:
    requirement = struct(
        "A label that nodes must have.",
        {"key": string("Its key."), "operator": string("Operator."), "values": words("Values.")},
        required=["key", "operator"],
    )
    spec = struct(
        "The nodes.",
        {
            "expireAfter": string("Age at which a node is replaced.", default="720h"),
            "nodeClassRef": anything("The class of the nodes."),
            "requirements": array("Labels that they must have.", requirement),
            "taints": array("Taints.", anything("A taint.")),
        },
        required=["nodeClassRef", "requirements"],
    )
    metadata = struct("Labels of the nodes.", {"labels": strings("Labels.")})
    return struct("The claims.", {"metadata": metadata, "spec": spec}, required=["spec"])


def _cluster_wide(group: str, version: str, kind: str, spec: Schema, plural: str) -> dict[str, Any]:
    status = struct("What has become of it.", {"conditions": conditions("the object")})
    fields: dict[str, Schema] = {
        "apiVersion": string("Version of the schema."),
        "kind": string("Kind of the object."),
        "metadata": {"type": "object"},
        "spec": spec,
        "status": status,
    }
    schema = struct("Karpenter's.", fields)
    served = served_version(version, schema, (), is_stored=True)
    found = definition(group, kind, served, category="karpenter")
    found["spec"]["scope"] = "Cluster"
    if plural:
        found["spec"]["names"]["plural"] = plural
        found["metadata"]["name"] = f"{plural}.{group}"
    return found

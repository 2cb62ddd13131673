"""What the operator may do on the API server for Workspaces and InferenceSets, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WATCH: Final = frozenset({"get", "list", "watch"})

PERMISSIONS: Final[Mapping[str, frozenset[str]]] = {
    "workspaces.kaito.sh": _WATCH | {"create", "delete", "patch"},
    "workspaces/status.kaito.sh": frozenset({"patch"}),
    "workspaces/finalizers.kaito.sh": frozenset({"update"}),  # on OpenShift, of owners
    "inferencesets.kaito.sh": _WATCH | {"patch"},
    "inferencesets/status.kaito.sh": frozenset({"patch"}),
    "inferencesets/finalizers.kaito.sh": frozenset({"update"}),
    "nodeclaims.karpenter.sh": _WATCH | {"create", "delete"},
    "nodepools.karpenter.sh": _WATCH | {"create", "delete", "patch"},
    "aksnodeclasses.karpenter.azure.com": _WATCH | {"create"},
    "inferencepools.inference.networking.k8s.io": _WATCH | {"create", "delete"},
    "nodes": _WATCH | {"patch"},
    "controllerrevisions.apps": _WATCH | {"create", "delete"},
    "statefulsets.apps": _WATCH | {"create", "patch"},
    "deployments.apps": _WATCH | {"delete"},  # servers of Kaito before 0.8
    "pods": _WATCH,
    "pods/log": frozenset({"get"}),  # the result of a benchmark
    "secrets": frozenset({"get"}),  # the token for a gated model
    "services": _WATCH | {"create"},
    "jobs.batch": _WATCH | {"create", "delete", "patch"},
    "configmaps": _WATCH | {"create"},
    "storageclasses.storage.k8s.io": _WATCH,
}
"""Verbs by resource, written `plural/subresource.group`."""

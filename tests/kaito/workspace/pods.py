"""Pods of a Workspace's server or job, as kubelet and scheduler describe them."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kaito.api import labels
from controller.kube.objects import Pod


def pod(name: str = "phi-0", *, owner: str = "uid-phi", **status: Any) -> Pod:
    """A pod of the StatefulSet or Job `phi`; `status` are fields of its status."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "labels": {labels.WORKSPACE: "phi"},
        "ownerReferences": [{"kind": "StatefulSet", "uid": owner, "controller": True}],
        "creationTimestamp": status.pop("created", "2026-01-01T00:00:00Z"),
    }
    if status.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:30:00Z"
    status.setdefault("phase", "Running")
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def container(**state: Any) -> dict[str, Any]:
    """`status.containerStatuses[]` of the server: `waiting`, `running`, `terminated`, `last`."""
    own: dict[str, Any] = {"name": "phi", "restartCount": state.pop("restarts", 0)}
    last = state.pop("last", None)
    own |= {"ready": state.pop("ready", False), "state": state}
    return {**own, "lastState": {"terminated": last}} if last else own


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """A container that waits."""
    return container(waiting={"reason": reason, "message": message}, **more)


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    """The end of a container."""
    return {"exitCode": code, "reason": reason, "message": message}


def unscheduled(reason: str = "Unschedulable", message: str = "") -> dict[str, Any]:
    """The condition of a pod for which there is no node."""
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}

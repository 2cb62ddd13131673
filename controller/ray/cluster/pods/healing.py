"""Decides which component repairs a broken pod: exactly one for each class of failure.

Two healers of one pod would race: the kubelet restarts its container while the operator replaces
the pod. Without a healer the pod would stay dead. The table:

    phase                    Ray container          restart policy         healer
    -----------------------  ---------------------  ---------------------  ----------------
    any, being deleted       any                    any                    control plane
    Failed, Succeeded        any                    any                    operator
    Running                  ended                  Never                  operator
    Running                  ended with code 0      OnFailure              operator
    Running                  ended otherwise        OnFailure, Always      kubelet
    Running                  waits (crash loop)     OnFailure, Always      kubelet
    Running                  runs, or unknown       any                    none is needed
    Unknown                  any                    any                    control plane
    Pending                  any                    any                    kubelet, scheduler

`Failed` covers eviction, preemption, node shutdown and an out-of-memory kill under `Never`: the
kubelet has given up, whatever the restart policy says. `Unknown` and being deleted without an end
are a lost node: only the control plane may say that its pods are gone, because they may still be
running there.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from controller.ray.api.pod_state import ray_status

if TYPE_CHECKING:
    from controller.kube.objects import Pod


class Healer(Enum):
    """The component that acts on a pod in its present state."""

    NOBODY = "nobody"
    KUBELET = "kubelet"
    CONTROL_PLANE = "control plane"
    OPERATOR = "operator"


def healer(pod: Pod) -> Healer:
    """Return the healer of the pod."""
    if pod.metadata.terminating or pod.status.phase == "Unknown":
        return Healer.CONTROL_PLANE
    if pod.status.phase in {"Failed", "Succeeded"}:
        return Healer.OPERATOR
    if pod.status.phase != "Running":
        return Healer.KUBELET
    status = ray_status(pod)
    ended = status.state.terminated if status is not None else None
    if ended is None:
        waits = status is not None and status.state.waiting is not None
        return Healer.KUBELET if waits else Healer.NOBODY
    policy = pod.spec.restart_policy
    stays_down = policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)
    return Healer.OPERATOR if stays_down else Healer.KUBELET


def unhealthy_reason(pod: Pod) -> str | None:
    """Return a clause about why the operator must replace the pod; None if it must not.

    A terminating pod still has a reason if it has ended, because it will not run again.
    """
    status = pod.status
    if status.phase in {"Failed", "Succeeded"}:
        detail = f" ({status.reason})" if status.reason else ""
        return f"its phase is {status.phase}{detail}"
    ray = ray_status(pod)
    ended = ray.state.terminated if ray is not None else None
    if ended is None or healer(pod) is not Healer.OPERATOR:
        return None
    return f"its Ray container ended with exit code {ended.exit_code} ({ended.reason})"

"""Why a pod's containers do not run: what kubelet and container runtime say of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.pod_diagnosis import Finding
from controller.ray.pods.authentication import WAIT_CONTAINER

if TYPE_CHECKING:
    from controller.kube.objects import ContainerStateTerminated
    from controller.ray.diagnosis.pod_diagnosis import PodDiagnosis
    from controller.ray.diagnosis.reasons import Reason

_CANNOT_START: Final = {
    "ImagePullBackOff": reasons.IMAGE_PULL,
    "ErrImagePull": reasons.IMAGE_PULL,
    "RegistryUnavailable": reasons.IMAGE_PULL,
    "ImageInspectError": reasons.IMAGE_PULL,
    "SignatureValidationFailed": reasons.IMAGE_PULL,
    "InvalidImageName": reasons.INVALID_IMAGE_NAME,
    "ErrImageNeverPull": reasons.IMAGE_NEVER_PULLED,
    "CreateContainerConfigError": reasons.CONTAINER_CONFIG,
    "CreateContainerError": reasons.CONTAINER_CREATION,
    "RunContainerError": reasons.CONTAINER_START,
}

_OBJECT_MISSING: Final = re.compile(r'\b(secret|configmap) "([^"]+)" not found', re.IGNORECASE)


def not_started(case: PodDiagnosis) -> Finding | None:
    """The first container that cannot be started at all."""
    for title, container in case.containers:
        waiting = container.state.waiting
        reason = _CANNOT_START.get(waiting.reason) if waiting is not None else None
        if waiting is None or reason is None:
            continue
        said = waiting.message or waiting.reason
        verb = "cannot pull the image of" if reason is reasons.IMAGE_PULL else "cannot start"
        words = f"{verb} {title}: {said}{_remedy(case, container.name, said, reason)}"
        return Finding(reason, words, case.since("ContainersReady"))
    return None


def _remedy(case: PodDiagnosis, container: str, said: str, reason: Reason) -> str:
    missing = _OBJECT_MISSING.search(said)
    if missing:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1].lower()]
        return f"; create the {kind} {missing[2]} in namespace {case.pod.metadata.namespace}"
    if reason in {reasons.IMAGE_PULL, reasons.INVALID_IMAGE_NAME}:
        whose = "the Ray container" if container == WAIT_CONTAINER else container
        return f"; correct the image of {whose} in {case.template}, or set imagePullSecrets"
    if reason is reasons.CONTAINER_START:
        return f"; correct command and args of {container} in {case.template}"
    return ""


def crashing(case: PodDiagnosis) -> Finding | None:
    """Also between two crashes, while the container runs and is not ready."""
    for title, container in case.containers:
        end = container.last_state.terminated or container.state.terminated
        if end is None or container.ready or (not end.exit_code and not container.restart_count):
            continue
        if end.reason == "OOMKilled":
            return out_of_memory(case, title, container.name, end)
        said = f", saying: {end.message.strip()}" if end.message.strip() else ""
        words = (
            f"crashes: {title} last {ending(end)}{said}; see "
            f"`kubectl logs {case.pod.metadata.name} -c {container.name} --previous`"
        )
        return Finding(reasons.CRASH_LOOP, words)
    return None


def out_of_memory(
    case: PodDiagnosis, title: str, name: str, end: ContainerStateTerminated
) -> Finding:
    """A container that was killed for its memory: its limit, and where to raise it."""
    spec = case.pod.spec
    limits = next((c.resources.limits for c in spec.all_containers if c.name == name), None)
    limit = (limits or {}).get("memory")
    limited = f"its memory limit is {limit}" if limit else "it has no memory limit: the node's"
    words = (
        f"ran out of memory: {title} {ending(end)}; {limited}; raise "
        f"resources.limits.memory of {name} in {case.template}"
    )
    return Finding(reasons.OUT_OF_MEMORY, words)


def ending(end: ContainerStateTerminated | None) -> str:
    """How a container ended: a predicate."""
    if end is None:
        return "ended"
    at = f" at {end.finished_at}" if end.finished_at else ""
    return f"ended with exit code {end.exit_code} ({end.reason or 'Error'}){at}"

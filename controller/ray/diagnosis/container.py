"""Diagnoses containers that do not run, from the kubelet's status."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from controller.apimachinery.redaction import last_error
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.pod_diagnosis import Finding
from controller.ray.pods.features.authentication import WAIT_CONTAINER

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


def not_started(diagnosis: PodDiagnosis) -> Finding | None:
    """Find the first container that cannot be started."""
    for title, container in diagnosis.containers:
        waiting = container.state.waiting
        reason = _CANNOT_START.get(waiting.reason) if waiting is not None else None
        if waiting is None or reason is None:
            continue
        said = waiting.message or waiting.reason
        verb = "cannot pull the image of" if reason is reasons.IMAGE_PULL else "cannot start"
        message = f"{verb} {title}: {said}{_remedy(diagnosis, container.name, said, reason)}"
        return Finding(reason, message, diagnosis.since("ContainersReady"))
    return None


def _remedy(diagnosis: PodDiagnosis, container: str, said: str, reason: Reason) -> str:
    missing = _OBJECT_MISSING.search(said)
    if missing:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1].lower()]
        return f"; create the {kind} {missing[2]} in namespace {diagnosis.pod.metadata.namespace}"
    if reason in {reasons.IMAGE_PULL, reasons.INVALID_IMAGE_NAME}:
        whose = "the Ray container" if container == WAIT_CONTAINER else container
        heads = ", which takes it from the head by default" if diagnosis.is_submitter else ""
        where = f"{diagnosis.template}{heads}"
        return f"; correct the image of {whose} in {where}, or set imagePullSecrets"
    if reason is reasons.CONTAINER_START:
        return f"; correct command and args of {container} in {diagnosis.template}"
    return ""


def crashing(diagnosis: PodDiagnosis) -> Finding | None:
    """Find a container that crashes repeatedly, even while it runs between two crashes."""
    for title, container in diagnosis.containers:
        end = container.last_state.terminated or container.state.terminated
        if end is None or container.ready or (not end.exit_code and not container.restart_count):
            continue
        if end.reason == "OOMKilled":
            return out_of_memory(diagnosis, title, container.name, end)
        which = " --previous" if container.last_state.terminated is not None else ""
        message = (
            f"crashes: {title} last {ending(end)}; see "
            f"`kubectl logs {diagnosis.pod.metadata.name} -c {container.name}{which}`"
        )
        return Finding(reasons.CRASH_LOOP, message)
    return None


def out_of_memory(
    diagnosis: PodDiagnosis, title: str, name: str, end: ContainerStateTerminated
) -> Finding:
    """Return the finding for a container that ran out of memory."""
    spec = diagnosis.pod.spec
    limits = next((c.resources.limits for c in spec.all_containers if c.name == name), None)
    limit = (limits or {}).get("memory")
    limited = f"its memory limit is {limit}" if limit else "it has no memory limit of its own"
    message = (
        f"ran out of memory: {title} {ending(end)}; {limited}; raise "
        f"resources.limits.memory of {name} in {diagnosis.template}"
    )
    return Finding(reasons.OUT_OF_MEMORY, message)


def ending(end: ContainerStateTerminated | None) -> str:
    """Return the predicate of a container's end, with the error that it left behind."""
    if end is None:
        return "ended"
    at = f" at {end.finished_at}" if end.finished_at else ""
    return f"ended with {exit_code(end)}{at}{last_words(end)}"


def exit_code(end: ContainerStateTerminated) -> str:
    """Return the exit code and the kubelet's reason: `exit code 1 (Error)`."""
    return f"exit code {end.exit_code} ({end.reason or 'Error'})"


def last_words(end: ContainerStateTerminated) -> str:
    """Return the line of its termination message that states the error, to end a sentence."""
    said = last_error(end.message)
    return f", saying: {said}" if said else ""

"""Runs Manta's image once as a pod, before KubeRay is stopped."""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from controller.command.takeover.options import ChangeFailed
from controller.kube.errors import KubeError, NotFound
from controller.kube.resources import PODS

if TYPE_CHECKING:
    from controller.command.takeover.options import ChangeOptions
    from controller.kube.client import Client
    from controller.kube.objects import Pod

CONTAINER: Final = "manta"
_PAUSE: Final = 1.0
_HOPELESS: Final = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ImagePullBackOff",
    "InvalidImageName", "RunContainerError",
})  # fmt: skip


async def check_image(client: Client, options: ChangeOptions) -> None:
    """Run `manta run --check` in a pod of the image and wait for its end.

    Raises:
        ChangeFailed: it cannot be pulled or started, or it failed, or took too long.
        KubeError: the API server refused the pod.
    """
    name = f"manta-check-{secrets.token_hex(3)}"
    await client.create(PODS, options.namespace, check_pod(name, options))
    try:
        await _wait(client, name, options)
    finally:
        with suppress(NotFound):
            await client.delete(PODS, options.namespace, name)


def check_pod(name: str, options: ChangeOptions) -> dict[str, Any]:
    """Return the pod: the chart's image and security settings, with another command."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "manta-check"}},
        "spec": {
            "restartPolicy": "Never",
            "imagePullSecrets": [{"name": secret} for secret in options.pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": CONTAINER,
                    "image": options.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["manta", "run", "--check"],
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "128Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


async def _wait(client: Client, name: str, options: ChangeOptions) -> None:
    loop = asyncio.get_running_loop()
    deadline, told = loop.time() + options.timeout, ""
    while True:
        pod = await client.get(PODS, options.namespace, name)
        state, reason = describe(pod), _waiting_reason(pod)
        if state != told:
            sys.stdout.write(f"   pod {name}: {state}\n")
            told = state
        code = _exit_code(pod)
        if code == 0 or pod.status.phase == "Succeeded":
            return
        if code is not None or pod.status.phase == "Failed":
            log = await _log(client, name, options)
            raise ChangeFailed(f"image {options.image} does not start: {state}{log}")
        if reason in _HOPELESS:
            raise ChangeFailed(
                f"image {options.image} does not start: {state}; push it to a registry that the "
                "cluster can pull from, or name a Secret with --image-pull-secret"
            )
        if loop.time() >= deadline:
            raise ChangeFailed(
                f"image {options.image} has not started after {options.timeout:.0f} s: {state}; "
                "a longer --timeout helps if it only takes long"
            )
        await asyncio.sleep(_PAUSE)


def _exit_code(pod: Pod) -> int | None:
    """Return the exit code of our container; None before its end. A mesh's proxy may go on."""
    ours = next((each for each in pod.status.container_statuses if each.name == CONTAINER), None)
    end = ours.state.terminated if ours is not None else None
    return end.exit_code if end is not None else None


def describe(pod: Pod) -> str:
    """Describe the phase, and why a container waits."""
    status, reason = pod.status, _waiting_reason(pod)
    words = [status.phase or "Pending"]
    if reason:
        words.append(f"({reason})")
    message = next(
        (each.state.waiting.message for each in status.container_statuses if each.state.waiting), ""
    )
    return " ".join(filter(None, [*words, message, status.message]))


def _waiting_reason(pod: Pod) -> str:
    waiting = (each.state.waiting for each in pod.status.container_statuses)
    return next((each.reason for each in waiting if each is not None), "")


async def _log(client: Client, name: str, options: ChangeOptions) -> str:
    try:
        text = await client.read_log_tail(
            options.namespace, name, container=CONTAINER, lines=5, limit_bytes=2048
        )
    except KubeError:
        return ""
    return f"; it said:\n{text.strip()}" if text.strip() else ""

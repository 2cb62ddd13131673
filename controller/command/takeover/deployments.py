"""Deployments of operators: read them, scale them, wait for their pods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from controller.command.takeover.options import ChangeFailed
from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject, View
from controller.kube.resources import PODS, Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.kube.client import Client

BEFORE: Final = "manta.dev/replicas-before-take-over"
"""Annotation of KubeRay's Deployment: how many replicas to give back."""

_PAUSE: Final = 1.0


class _Selector(View, frozen=True):
    match_labels: dict[str, str] | None = None


class _Spec(View, frozen=True):
    replicas: int = 1
    selector: _Selector = _Selector()


class _Status(View, frozen=True):
    available_replicas: int = 0


class Deployment(KubeObject, frozen=True):
    """A Deployment."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def selector(self) -> str:
        """The label selector of its pods."""
        labels = self.spec.selector.match_labels or {}
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", Deployment)


async def kuberay(client: Client, namespace: str, name: str) -> Deployment:
    """Return KubeRay's operator.

    Raises:
        ChangeFailed: there is none of this name.
        KubeError: it cannot be read.
    """
    try:
        return await client.get(DEPLOYMENTS, namespace, name)
    except NotFound:
        raise ChangeFailed(
            f"there is no Deployment {name} in namespace {namespace}; name KubeRay's operator with "
            "--namespace and --deployment (kubectl get deployments -A | grep kuberay)"
        ) from None


async def scale(
    client: Client, found: Deployment, replicas: int, *, before: int | None = None
) -> None:
    """Set the replicas, and store `before` on the Deployment; None removes what was stored.

    Raises:
        KubeError: the API server refused.
    """
    meta = found.metadata
    stored = None if before is None else str(before)
    patch = {"metadata": {"annotations": {BEFORE: stored}}, "spec": {"replicas": replicas}}
    await client.merge_patch(DEPLOYMENTS, meta.namespace, meta.name, patch)


async def wait_until_gone(client: Client, found: Deployment, seconds: float) -> None:
    """Wait until the Deployment has no pod left.

    Raises:
        ChangeFailed: there still is one after `seconds`.
    """
    namespace = found.metadata.namespace

    async def gone() -> bool:
        pods = await client.list(PODS, namespace, label_selector=found.selector)
        return not pods.items

    if not await _becomes(gone, seconds):
        raise ChangeFailed(
            f"the pods of {found.metadata.name} are still there after {seconds:.0f} s; see "
            f"kubectl -n {namespace} get pods -l {found.selector}"
        )


async def wait_until_available(client: Client, found: Deployment, seconds: float) -> None:
    """Wait until the Deployment has an available pod.

    Raises:
        ChangeFailed: it has none after `seconds`.
    """
    meta = found.metadata

    async def available() -> bool:
        now = await client.get(DEPLOYMENTS, meta.namespace, meta.name)
        return now.status.available_replicas > 0

    if not await _becomes(available, seconds):
        raise ChangeFailed(
            f"{meta.name} is not available after {seconds:.0f} s; see "
            f"kubectl -n {meta.namespace} describe pods -l {found.selector}"
        )


async def _becomes(reached: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    deadline = asyncio.get_running_loop().time() + seconds
    while not await reached():
        if asyncio.get_running_loop().time() >= deadline:
            return False
        await asyncio.sleep(_PAUSE)
    return True

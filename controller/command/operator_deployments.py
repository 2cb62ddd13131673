"""Deployments of operators: read them, scale them, wait for their pods."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from controller.command.connection import CommandFailed, ConnectionOptions
from controller.kube.client import Client
from controller.kube.errors import KubeError, NotFound
from controller.kube.objects import KubeObject, Pod, View
from controller.kube.resources import PODS, Resource

# Options and errors of a change of operators.

RELEASE = "manta"
"""Name of the Helm release."""

CHART = Path(__file__).parents[3] / "charts" / "manta-operator"
"""The chart of a checkout."""


class ChangeOptions(ConnectionOptions, frozen=True):
    """The options of `manta take-over` and `manta hand-back`.

    Without `chart` Manta is not installed and removed: the user starts and stops it. `deployment`
    is KubeRay's operator; `timeout` are the seconds that each step may take.
    """

    deployment: str
    chart: bool = True
    image: str = ""
    pull_secrets: Sequence[str] = ()
    chart_path: Path | None = None
    timeout: float = 120.0


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
        CommandFailed: there is none of this name.
        KubeError: it cannot be read.
    """
    try:
        return await client.get(DEPLOYMENTS, namespace, name)
    except NotFound:
        raise CommandFailed(
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
        CommandFailed: there still is one after `seconds`.
    """
    namespace = found.metadata.namespace

    async def gone() -> bool:
        pods = await client.list(PODS, namespace, label_selector=found.selector)
        return not pods.items

    if not await _becomes(gone, seconds):
        raise CommandFailed(
            f"the pods of {found.metadata.name} are still there after {seconds:.0f} s; see "
            f"kubectl -n {namespace} get pods -l {found.selector}"
        )


async def wait_until_available(client: Client, found: Deployment, seconds: float) -> None:
    """Wait until the Deployment has an available pod.

    Raises:
        CommandFailed: it has none after `seconds`.
    """
    meta = found.metadata

    async def available() -> bool:
        now = await client.get(DEPLOYMENTS, meta.namespace, meta.name)
        return now.status.available_replicas > 0

    if not await _becomes(available, seconds):
        raise CommandFailed(
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


# Helm, as a program.


class Helm:
    """Manta's release."""

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options

    def require(self) -> None:
        """Check for the program and the chart; raises `CommandFailed` if one is missing."""
        if shutil.which("helm") is None:
            raise CommandFailed(
                "helm is not in the PATH; install it, or start and stop Manta yourself: "
                "--no-install, --no-uninstall",
                2,
            )
        chart = self._options.chart_path or CHART
        if not (chart / "Chart.yaml").is_file():
            raise CommandFailed(f"{chart} is no chart; name Manta's with --chart", 2)

    async def is_installed(self) -> bool:
        """Return whether there is a release."""
        return await self._run("status", RELEASE, quiet=True) == 0

    async def install(self) -> None:
        """Install the chart and wait until the operator is ready; raises `CommandFailed`."""
        image = self._options.image
        repository, tag = split_image(image)
        settings = [f"image.repository={repository}", f"image.tag={tag}"]
        settings += [
            f"imagePullSecrets[{number}].name={secret}"
            for number, secret in enumerate(self._options.pull_secrets)
        ]
        status = await self._run(
            "install", RELEASE, str(self._options.chart_path or CHART), "--skip-crds", "--wait",
            f"--timeout={self._options.timeout:.0f}s",
            *(word for each in settings for word in ("--set-string", each)),
        )  # fmt: skip
        if status:
            raise CommandFailed("helm could not install Manta; its error is above")

    async def uninstall(self) -> None:
        """Remove the release and wait until the operator is gone; raises `CommandFailed`."""
        if await self._run(
            "uninstall", RELEASE, "--wait", f"--timeout={self._options.timeout:.0f}s"
        ):
            raise CommandFailed(
                "helm could not remove Manta; its error is above. Run: "
                f"helm -n {self._options.namespace} uninstall {RELEASE}"
            )

    async def _run(self, *arguments: str, quiet: bool = False) -> int:
        options = self._options
        where = ["--namespace", options.namespace]
        if options.kubeconfig:
            where += ["--kubeconfig", options.kubeconfig]
        if options.context:
            where += ["--kube-context", options.context]
        silent = asyncio.subprocess.DEVNULL if quiet else None
        # helm does not get ^C itself; this process ends it in order
        process = await asyncio.create_subprocess_exec(
            "helm", *arguments, *where, start_new_session=True, stdout=silent, stderr=silent
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise


def split_image(image: str) -> tuple[str, str]:
    """Return the repository and tag of an image; raises `CommandFailed` without a tag.

    A digest is not split off: the chart puts a colon between the two, which a digest does not have.
    """
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag or "@" in repository:
        raise CommandFailed(f"--image {image} has no tag; write it as REPOSITORY:TAG", 2)
    return repository, tag


# Runs Manta's image once as a pod, before KubeRay is stopped.

CONTAINER: Final = "manta"
_HOPELESS: Final = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ImagePullBackOff",
    "InvalidImageName", "RunContainerError",
})  # fmt: skip


async def check_image(client: Client, options: ChangeOptions) -> None:
    """Run `manta run --check` in a pod of the image and wait for its end.

    Raises:
        CommandFailed: it cannot be pulled or started, or it failed, or took too long.
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
            raise CommandFailed(f"image {options.image} does not start: {state}{log}")
        if reason in _HOPELESS:
            raise CommandFailed(
                f"image {options.image} does not start: {state}; push it to a registry that the "
                "cluster can pull from, or name a Secret with --image-pull-secret"
            )
        if loop.time() >= deadline:
            raise CommandFailed(
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

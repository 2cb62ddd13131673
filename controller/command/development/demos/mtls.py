"""`manta demo --kind mtls`: a cluster whose parts prove who they are, on real Ray.

Pods are processes of this machine, and the operator issues their certificates. A job runs on a
worker; a client with a certificate finds the head, and one without is refused. Then the
certificates are issued anew, as before their end, and another job runs on the same pods. The exit
status is 0 only if all of that happened and nothing was left behind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from controller.command.development.demos.cluster import NAMESPACE, OPERATOR, cluster_informers
from controller.command.development.demos.real_ray import demo_with_real_ray
from controller.command.development.demos.steps import DemoSummary, Step
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.view import ClusterView
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.run.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kube.errors import ConfigurationError
from controller.kube.resources import PODS, SECRETS, SERVICES
from controller.ray.api import RAYCLUSTERS, FeatureGates, custom_resource_definitions
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.labels import CERTIFICATE_END
from controller.ray.api.names import (
    DASHBOARD_PORT,
    GCS_PORT,
    TLS_DIRECTORY,
    TLS_VARIABLES,
    TLS_VOLUME,
)
from controller.ray.pods.tls import certificate_secret
from controller.ray.settings import MANTA
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.kube.client import Client

T = TypeVar("T")
Json = dict[str, Any]

_SECONDS: Final = 600.0  # for each step: a small machine starts Ray slowly
_POLL: Final = 1.0
_JOB: Final = (
    'python -c "import ray; ray.init(); '
    "print(sum(ray.get([ray.remote(num_cpus=1)(lambda i: i * i).remote(i) for i in range(20)])))"
    '"'
)


async def mtls_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: one RayCluster, which gets `tlsOptions`.
        machine: the options of this machine.

    Raises:
        ConfigurationError: it is something else, or Ray cannot be installed.
    """
    documents, summary = load(manifest), DemoSummary()
    if [each.get("kind") for each in documents] != [RAYCLUSTERS.kind]:
        raise ConfigurationError(f"{manifest} does not hold one RayCluster and nothing else")
    cluster = documents[0]
    cluster["spec"] |= {"tlsOptions": {"enabled": True}}
    return await demo_with_real_ray(
        lambda node, screen: _play(cluster, node, screen, summary), summary, machine
    )


async def _play(manifest: Json, node: ProcessNode, screen: Screen, summary: DemoSummary) -> None:
    """Start everything, run the steps, stop everything."""
    settings = Settings(metrics_address="", health_address="")
    kinds = KindSettings.from_environment(FeatureGates({MTLS: True}), mtls_issuer=MANTA)
    crds = custom_resource_definitions()
    async with (
        embedded_cluster(port=0, crds=crds, nodes=NodeSettings(), process_node=node) as cluster,
        operator_for(
            cluster.credentials(), settings, user_agent=OPERATOR, kind_settings=kinds
        ) as operator,
        asyncio.TaskGroup() as tasks,
    ):
        user = cluster.client("demo-user")
        view = ClusterView(str(manifest["metadata"]["name"]), screen)
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        watching = [tasks.create_task(one.run()) for one in cluster_informers(user, view)]
        await _steps(user, manifest, view, summary, screen)
        stop.set()
        await running
        for task in watching:
            task.cancel()


async def _steps(
    user: Client, manifest: Json, view: ClusterView, summary: DemoSummary, screen: Screen
) -> None:
    def step(name: str) -> Step:
        return Step(name, _SECONDS, screen, summary.steps)

    async with step("created -> ready"):
        await user.create(RAYCLUSTERS, NAMESPACE, manifest)
        await view.until(lambda v: v.is_ready())
    async with step("a job -> succeeded"):
        await _run_job(user, view.name, summary)
    for name, has_certificate, wanted in (
        ("member", True, "Succeeded"),
        ("stranger", False, "Failed"),
    ):
        async with step(f"a {name} asks -> {wanted.lower()}"):
            await user.create(PODS, NAMESPACE, _client(name, view, manifest, tls=has_certificate))
            phase = await _until(lambda name=name: _phase(user, name), {"Succeeded", "Failed"})
            await user.delete(PODS, NAMESPACE, name)
        if phase != wanted:
            summary.wrong.append(f"the head has answered a {name}: the pod {phase.lower()}")
    async with step("issued anew -> another job"):
        await _renew(user, view.name)
        await _run_job(user, view.name, summary)
    async with step("deleted -> nothing left"):
        await user.delete(RAYCLUSTERS, NAMESPACE, view.name)
        await view.until(lambda v: v.cluster is None and not v.pods)
        await _until(lambda: _has_secrets(user), {False})


async def _run_job(user: Client, cluster: str, summary: DemoSummary) -> None:
    async def ask(method: str, path: str, **body: str) -> Json:
        answer = await user.proxy(
            *(SERVICES, NAMESPACE, f"{cluster}-head-svc:{DASHBOARD_PORT}", method, path),
            headers={"content-type": "application/json"},
            body=msgspec.json.encode(body) if body else None,
            timeout=120.0,
        )
        return msgspec.json.decode(answer.body)

    submitted = await ask("POST", "/api/jobs/", entrypoint=_JOB)
    path = f"/api/jobs/{submitted['submission_id']}"

    async def status() -> str:
        return (await ask("GET", path))["status"]

    ended = await _until(status, {"SUCCEEDED", "FAILED", "STOPPED"})
    if ended != "SUCCEEDED":
        summary.wrong.append(f"a job ended as {ended}: {(await ask('GET', path))['message']}")


async def _renew(user: Client, cluster: str) -> None:
    """Let both certificates be near their end, and wait until they are issued anew."""
    for name in (certificate_secret(cluster, "head"), certificate_secret(cluster, "worker")):
        before = (await user.get_raw(SECRETS, NAMESPACE, name))["data"]["tls.crt"]
        soon = {"metadata": {"annotations": {CERTIFICATE_END: "2000-01-01T00:00:00Z"}}}
        await user.merge_patch(SECRETS, NAMESPACE, name, soon)

        async def is_same(name: str = name, before: str = before) -> bool:
            found = await user.get_raw(SECRETS, NAMESPACE, name)
            return found["data"]["tls.crt"] == before

        await _until(is_same, {False})


async def _has_secrets(user: Client) -> bool:
    return bool((await user.list(SECRETS, NAMESPACE)).items)


async def _phase(user: Client, pod: str) -> str:
    return (await user.get(PODS, NAMESPACE, pod)).status.phase


async def _until(ask: Callable[[], Awaitable[T]], ends: set[T]) -> T:
    """Ask once a second until the answer is one of these."""
    while (found := await ask()) not in ends:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(_POLL)
    return found


def _client(name: str, view: ClusterView, manifest: Json, *, tls: bool) -> Json:
    """Return a pod that asks the head's GCS whether it is healthy."""
    assert view.cluster is not None
    address = f"{view.cluster.status['head']['podIP']}:{GCS_PORT}"
    head = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container: Json = {
        "name": "client",
        "image": head["image"],
        "command": ["ray", "health-check", "--address", address],
    }
    spec: Json = {"restartPolicy": "Never", "containers": [container]}
    if tls:
        secret = {"secretName": certificate_secret(view.name, "worker")}
        spec["volumes"] = [{"name": TLS_VOLUME, "secret": secret}]
        container["volumeMounts"] = [{"name": TLS_VOLUME, "mountPath": TLS_DIRECTORY}]
        container["env"] = [{"name": key, "value": value} for key, value in TLS_VARIABLES.items()]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

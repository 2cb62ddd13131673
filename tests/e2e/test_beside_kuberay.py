"""KubeRay's operator and Manta do the same edits' bidding, each in a namespace of its own.

`KUBERAY_OPERATOR` names KubeRay's binary. Both run against one embedded API server, and each edit
is made in both namespaces. Then the objects must become equal, but for what `DECIDED` lists, and
each operator must have kept as many of the pods that were there before.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.command.development.embedded_cluster import embedded_cluster
from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.resources import NAMESPACES, PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from devcluster.nodes import NodeSettings
from tests.integration.harness import example_cluster

BINARY = os.environ.get("KUBERAY_OPERATOR", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.rare,
    pytest.mark.real_time,
    pytest.mark.embedded_only,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not BINARY, reason="KUBERAY_OPERATOR names no binary of KubeRay's operator"),
]

Object = dict[str, Any]
KUBERAY, MANTA = "of-kuberay", "of-manta"
NAME = "example"
IDENTICAL_WITHIN = 60.0
"""Seconds: both wait for pods, and Manta before it replaces those that are lost repeatedly."""

DECIDED = {
    r"env.RAY_USAGE_STATS_EXTRA_TAGS": "it names the operator and its version",
    r"wait-gcs-ready.args": "the script is another one; it waits for the same command",
    r"status.conditions.(Ready|Upgrading|OptionsInEffect|PodsUpToDate)": "Manta adds conditions",
    r"status.(conditions.\w+.)?observedGeneration": "Manta reports it in all cases",
    r"manta.dev/|ray.io/kuberay-version": "marks of the operator itself",
    r"ray.io/upgrade-strategy-recreate-hash": "each compares its own hash",
}
"""Differences that are meant, by a pattern of the field, with the reason."""

UNSTABLE = {
    "uid", "resourceVersion", "creationTimestamp", "managedFields", "nodeName", "generateName",
    "clusterIP", "clusterIPs", "podIP", "serviceIP", "lastTransitionTime", "lastUpdateTime",
    "stateTransitionTimes", "message", "deletionTimestamp", "deletionGracePeriodSeconds",
    "ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name", "blockOwnerDeletion",
}  # fmt: skip
"""Fields that differ between two runs of one operator. Which of several equal workers goes is
nobody's promise, so neither is its index."""

_RANDOM = re.compile(r"-(head|worker)-[a-z0-9]{5,8}\b")


@asynccontextmanager
async def both_operators(folder: Path) -> AsyncGenerator[Client]:
    """KubeRay's operator and Manta on one embedded API server; yields a client of it."""
    definitions = [*custom_resource_definitions()]
    async with embedded_cluster(port=0, crds=definitions, nodes=NodeSettings(nodes=2)) as cluster:
        client = cluster.client("user")
        for namespace in (KUBERAY, MANTA):
            await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(msgspec.json.encode({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster.kubeconfig_cluster()}],
            "users": [{"name": "c", "user": cluster.kubeconfig_user()}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }))  # fmt: skip
        theirs = [BINARY, f"-watch-namespace={KUBERAY}", "-enable-leader-election=false"]
        theirs += ["-metrics-addr=127.0.0.1:0", "-health-probe-bind-address=127.0.0.1:0"]
        theirs += ["-feature-gates=RayMultiHostIndexing=true"]
        ours = [sys.executable, "-m", "controller", "run", f"--namespace={MANTA}"]
        ours += ["--metrics-address=0", "--health-address=0"]
        async with running(theirs, kubeconfig), running(ours, kubeconfig):
            yield client


@asynccontextmanager
async def running(command: list[str], kubeconfig: Path) -> AsyncGenerator[None]:
    with kubeconfig.with_name(f"{command[1].strip('-')[:9]}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, env={**os.environ, "KUBECONFIG": str(kubeconfig)}
        )
        try:
            yield
            assert process.returncode is None, "the operator has ended"
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


class Pair:
    """The RayCluster of each namespace."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: dict[str, set[str]] = {KUBERAY: set(), MANTA: set()}

    async def create(self, namespace: str, body: Object) -> None:
        await self._client.create(RAYCLUSTERS, namespace, body)

    async def patch(self, namespace: str, *operations: tuple[str, str, Any]) -> None:
        wanted = [{"op": op, "path": f"/spec/{path}", "value": v} for op, path, v in operations]
        await self._client.json_patch(RAYCLUSTERS, namespace, NAME, wanted)

    async def pods(self, namespace: str) -> list[Object]:
        return await self._objects(PODS, namespace)

    async def lose(self, namespace: str, role: str) -> None:
        pods = await self.pods(namespace)
        names = [
            pod["metadata"]["name"]
            for pod in pods
            if pod["metadata"]["labels"]["ray.io/node-type"] == role
        ]
        await self._client.delete(PODS, namespace, min(names))

    async def name_one(self, namespace: str) -> None:
        """Name a worker that is to go, with one replica fewer, as an autoscaler does."""
        pods = await self.pods(namespace)
        workers = [p["metadata"] for p in pods if "worker" in p["metadata"]["name"]]
        name = min(each["name"] for each in workers)
        await self.patch(
            namespace,
            ("add", "workerGroupSpecs/0/scaleStrategy", {"workersToDelete": [name]}),
            ("replace", "workerGroupSpecs/0/replicas", len(workers) - 1),
        )

    async def become_equal(self, step: str) -> None:
        """Wait until both have come to the same end."""
        differences: list[str] = ["not compared yet"]
        for _ in range(int(IDENTICAL_WITHIN)):
            await asyncio.sleep(1.0)
            one, other = await self._state(KUBERAY), await self._state(MANTA)
            differences = [f"KubeRay: {line}" for line in (one - other).elements()]
            differences += [f"Manta: {line}" for line in (other - one).elements()]
            if not differences:
                break
        assert not differences, f"after {step!r}:\n" + "\n".join(differences)
        kept = [await self._kept(namespace) for namespace in (KUBERAY, MANTA)]
        assert kept[0] == kept[1], (
            f"after {step!r} KubeRay has kept {kept[0]} pods, Manta {kept[1]}"
        )

    async def _kept(self, namespace: str) -> int:
        present = {pod["metadata"]["uid"] for pod in await self.pods(namespace)}
        kept = len(present & self._pods[namespace])
        self._pods[namespace] = present
        return kept

    async def _state(self, namespace: str) -> Counter[str]:
        """All that a user can see and that is not decided otherwise, one line for each field."""
        lines: Counter[str] = Counter()
        for cluster in await self._objects(RAYCLUSTERS, namespace):
            status = {k: v for k, v in cluster.get("status", {}).items() if k != "endpoints"}
            lines.update(_lines("cluster", {"status": status}, namespace))
        for pod in await self.pods(namespace):
            labels = pod["metadata"].get("labels", {})
            seen = {**pod, "status": {"phase": pod["status"].get("phase")}}
            seen["going"] = "deletionTimestamp" in pod["metadata"]
            lines.update(_lines(f"{labels.get('ray.io/group')} pod", seen, namespace))
        for service in await self._objects(SERVICES, namespace):
            lines.update(_lines(service["metadata"]["name"], {**service, "status": {}}, namespace))
        return lines

    async def _objects(self, resource: Any, namespace: str) -> list[Object]:
        listed = (await self._client.list_metadata(resource, namespace)).items
        found = []
        for each in listed:
            try:
                found.append(await self._client.get_raw(resource, namespace, each.metadata.name))
            except NotFound:
                continue
        return found


def _lines(what: str, obj: Object, namespace: str) -> Iterator[str]:
    for path, value in _fields(obj):
        if not any(re.search(pattern, path) for pattern in DECIDED):
            text = _RANDOM.sub(r"-\1-R", str(value).replace(namespace, "NAMESPACE"))
            yield f"{what}{path}: {text}"


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf with its path; entries of lists that have a name or a type are found by that."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in UNSTABLE:
                yield from _fields(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            known = inner if isinstance(inner, dict) else {}
            mark = known.get("name") or known.get("type") or number
            yield from _fields(inner, f"{path}.{mark}")
    else:
        yield path, value


def edited(*operations: tuple[str, str, Any]) -> Callable[[Pair, str], Awaitable[None]]:
    return lambda pair, namespace: pair.patch(namespace, *operations)


def lost(role: str) -> Callable[[Pair, str], Awaitable[None]]:
    return lambda pair, namespace: pair.lose(namespace, role)


GROUP, IMAGE = "workerGroupSpecs/0", "template/spec/containers/0/image"
SECOND = example_cluster()["spec"]["workerGroupSpecs"][0] | {"groupName": "second", "replicas": 2}
STEPS: dict[str, Callable[[Pair, str], Awaitable[None]]] = {
    "create": lambda pair, namespace: pair.create(namespace, example_cluster(NAME)),
    "scale up": edited(("replace", f"{GROUP}/replicas", 3)),
    "scale down": edited(("replace", f"{GROUP}/replicas", 2)),
    "name a worker": lambda pair, namespace: pair.name_one(namespace),
    "clear the names, and ask for more at least": edited(
        ("remove", f"{GROUP}/scaleStrategy", None), ("add", f"{GROUP}/minReplicas", 2)
    ),
    "ask for more than the most": edited(
        ("add", f"{GROUP}/maxReplicas", 3), ("replace", f"{GROUP}/replicas", 9)
    ),
    "add a group": edited(("add", "workerGroupSpecs/-", SECOND)),
    "suspend a group": edited(("add", "workerGroupSpecs/1/suspend", True)),
    "resume the group": edited(("replace", "workerGroupSpecs/1/suspend", False)),
    "lose a worker": lost("worker"),
    "lose the head": lost("head"),
    "change an image": edited(("replace", f"{GROUP}/{IMAGE}", "rayproject/ray:2.99.0")),
    "suspend": edited(("add", "suspend", True)),
    "scale while suspended": edited(("replace", f"{GROUP}/replicas", 2)),
    "resume": edited(("replace", "suspend", False)),
    "upgrade by Recreate": edited(("add", "upgradeStrategy", {"type": "Recreate"})),
    "change an image again": edited(("replace", f"{GROUP}/{IMAGE}", "rayproject/ray:2.98.0")),
    "remove the group": edited(("remove", "workerGroupSpecs/1", None)),
}

SLICES = example_cluster(NAME)
SLICES["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 2
HOSTS: dict[str, Callable[[Pair, str], Awaitable[None]]] = {
    "create": lambda pair, namespace: pair.create(namespace, SLICES),
    "one replica fewer": edited(("replace", f"{GROUP}/replicas", 1)),
    "one more": edited(("replace", f"{GROUP}/replicas", 2)),
    "lose a host": lost("worker"),
    "suspend the group": edited(("add", f"{GROUP}/suspend", True)),
    "resume the group": edited(("replace", f"{GROUP}/suspend", False)),
}


@pytest.mark.parametrize("steps", [STEPS, HOSTS], ids=["one host", "several hosts"])
async def test_each_edit_has_the_same_result_with_kuberays_operator_and_with_ours(
    tmp_path: Path, steps: dict[str, Callable[[Pair, str], Awaitable[None]]]
):
    async with both_operators(tmp_path) as client:
        pair = Pair(client)
        for step, act in steps.items():
            await asyncio.gather(act(pair, KUBERAY), act(pair, MANTA))
            await pair.become_equal(step)

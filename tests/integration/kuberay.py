"""KubeRay as a test double: the objects it leaves behind, and what it would do about ours.

`Legacy` makes a RayCluster and its parts in the shape of KubeRay 1.6: generated pod names, labels,
annotations with its version and hash, conditions, and services and access without any mark of
Manta. `unrest` is a small model of its reconciler: it lists what that would change.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from controller.kube.objects import Pod, Service
from controller.kube.resources import PODS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, SERVICES
from controller.ray.api import RAYCLUSTERS, RayCluster
from tests.integration.harness import World, example_cluster

Json = dict[str, Any]

VERSION = "v1.6.0"
HASH = "3F2BAUAMVLRQL0C9GVK83Q6JRDRQNBPE"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@dataclass
class Legacy:
    """A RayCluster that KubeRay has made, with its parts."""

    world: World
    manifest: Json = field(default_factory=example_cluster)
    uid: str = ""
    pods: list[str] = field(default_factory=list)
    _rng: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def name(self) -> str:
        return self.manifest["metadata"]["name"]

    async def create(self, *, status: Json | None = None, service: bool = True) -> RayCluster:
        """The RayCluster with KubeRay's status, and its head service."""
        world = self.world
        made = await world.user.create(RAYCLUSTERS, world.namespace, self.manifest)
        self.uid = made.metadata.uid
        if service:
            await world.user.create(SERVICES, world.namespace, self._service())
        body = {"status": ready_status() | (status or {})}
        return await world.user.merge_patch(
            RAYCLUSTERS, world.namespace, self.name, body, subresource="status"
        )

    async def add_access(self) -> None:
        """The autoscaler's account, role and binding."""
        name, namespace = self.name, self.world.namespace
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        rules = [
            _rule("", "pods", "get", "list", "watch", "patch"),
            _rule("", "pods/resize", "patch"),
            _rule("ray.io", "rayclusters", "get", "patch"),
        ]
        for resource, body in (
            (SERVICE_ACCOUNTS, {}),
            (ROLES, {"rules": rules}),
            (ROLE_BINDINGS, {"roleRef": role, "subjects": [subject]}),
        ):
            metadata = {"name": name, "labels": self._labels(), "ownerReferences": [self._owner()]}
            await self.world.user.create(resource, namespace, body | {"metadata": metadata})

    async def add_head(self) -> str:
        spec = self.manifest["spec"]["headGroupSpec"]["template"]["spec"]
        labels = {"ray.io/node-type": "head", "ray.io/group": "headgroup"}
        annotations = {
            "ray.io/ft-enabled": "false",
            "ray.io/kuberay-version": VERSION,
            "ray.io/upgrade-strategy-recreate-hash": HASH,
        }
        name = f"{self.name[:50]}-head-{self._random()}"
        return await self._add(name, spec, labels, annotations)

    async def add_workers(self, count: int, *, group: int = 0, indexed: bool = True) -> list[str]:
        """Workers of single-host replicas, or of a group made while the index gate was off."""
        places = [
            {"ray.io/worker-group-replica-index": str(i)} if indexed else {} for i in range(count)
        ]
        return [await self._add_worker(group, place) for place in places]

    async def add_slice(self, index: int, hosts: int, *, group: int = 0) -> list[str]:
        """The first hosts of a multi-host replica."""
        spec = self.manifest["spec"]["workerGroupSpecs"][group]
        replica = f"{spec['groupName']}-{self._random()}"
        return [
            await self._add_worker(
                group,
                {
                    "ray.io/worker-group-replica-index": str(index),
                    "ray.io/worker-group-replica-name": replica,
                    "ray.io/replica-host-index": str(host),
                },
            )
            for host in range(hosts)
        ]

    async def all_ready(self) -> None:
        """Wait until the kubelet runs every pod that was made."""
        present = self.world.journal.present

        def ready() -> bool:
            return sum(_is_ready(pod) for pod in present.values()) >= len(self.pods)

        await self.world.eventually(ready)

    async def _add_worker(self, group: int, place: dict[str, str]) -> str:
        spec = self.manifest["spec"]["workerGroupSpecs"][group]
        prefix = f"{self.name}-{spec['groupName']}"[:50].lower()
        name = f"{prefix}-worker-{self._random()}"
        labels = {"ray.io/node-type": "worker", "ray.io/group": spec["groupName"]}
        return await self._add(name, spec["template"]["spec"], labels | place, {})

    async def _add(
        self, name: str, spec: Json, labels: dict[str, str], annotations: dict[str, str]
    ) -> str:
        spec, role = copy.deepcopy(spec), labels["ray.io/node-type"]
        spec["containers"][0] |= {
            "command": ["/bin/bash", "-c", "--"],
            "args": [f"ulimit -n 65536; ray start {'--head' if role == 'head' else ''} --block "],
        }
        given = self._labels() | {
            "ray.io/is-ray-node": "yes",
            "ray.io/identifier": f"{self.name}-{role}",
        }
        body = {
            "metadata": {
                "name": name,
                "generateName": name[:-5],
                "labels": given | labels,
                "annotations": annotations,
                "ownerReferences": [self._owner()],
            },
            "spec": spec,
        }
        await self.world.user.create(PODS, self.world.namespace, body)
        self.pods.append(name)
        return name

    def _service(self) -> Json:
        labels = self._labels() | {
            "ray.io/node-type": "head",
            "ray.io/identifier": f"{self.name}-head",
        }
        ports = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080}
        return {
            "metadata": {
                "name": f"{self.name}-head-svc",
                "labels": labels,
                "ownerReferences": [self._owner()],
            },
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": labels,
                "ports": [
                    {"name": name, "port": port, "targetPort": port, "appProtocol": "tcp"}
                    for name, port in ports.items()
                ],
            },
        }

    def _labels(self) -> dict[str, str]:
        return {
            "ray.io/cluster": self.name,
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }

    def _owner(self) -> Json:
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _random(self) -> str:
        return "".join(self._rng.choice(_ALPHABET) for _ in range(5))


def _rule(group: str, resource: str, *verbs: str) -> Json:
    return {"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}


def ready_status(*, suspending: bool = False, suspended: bool = False) -> Json:
    """The status that KubeRay writes, without anything of ours."""
    given = {
        "HeadPodReady": ("True", "HeadPodRunningAndReady"),
        "RayClusterProvisioned": ("True", "AllPodRunningAndReadyFirstTime"),
        "RayClusterSuspended": (str(suspended), "RayClusterSuspended"),
        "RayClusterSuspending": (str(suspending), "RayClusterSuspending"),
    }
    return {
        "state": "suspended" if suspended else "ready",
        "observedGeneration": 1,
        "desiredCPU": "3",
        "desiredMemory": "4Gi",
        "desiredGPU": "0",
        "desiredTPU": "0",
        "head": {},
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, (status, reason) in given.items()
        ],
    }


def unrest(cluster: RayCluster, pods: list[Pod], services: list[Service]) -> list[str]:
    """What KubeRay's reconciler would do about the pods and the head service, in words.

    A model of its section on pods: everything is found by labels, counted, and compared.
    """
    name = cluster.metadata.name
    heads = [pod for pod in pods if _has(pod, cluster=name, **{"node-type": "head"})]
    actions = [f"{len(heads)} heads"] if len(heads) != 1 else []
    actions += [f"delete {pod.metadata.name}" for pod in heads if _should_delete(pod)]
    fronts = [
        service
        for service in services
        if _has(service, cluster=name, **{"node-type": "head", "identifier": f"{name}-head"})
    ]
    if len(fronts) != 1:
        actions.append(f"{len(fronts)} head services")
    if cluster.spec.get("upgradeStrategy", {}).get("type") == "Recreate" and heads:
        stamp = (heads[0].metadata.annotations or {}).get("ray.io/kuberay-version", "")
        if stamp in {"", VERSION}:
            actions.append("recreate")
    for group in cluster.spec.get("workerGroupSpecs", []):
        actions += _unrest_of_group(cluster, group, pods)
    return actions


def _unrest_of_group(cluster: RayCluster, group: Json, pods: list[Pod]) -> list[str]:
    members = [p for p in pods if _has(p, cluster=cluster.metadata.name, group=group["groupName"])]
    hosts = group.get("numOfHosts", 1)
    replicas = max(group.get("replicas", 0), group.get("minReplicas", 0))
    replicas = 0 if group.get("suspend") else min(replicas, group.get("maxReplicas", 1 << 31))
    named = set(group.get("scaleStrategy", {}).get("workersToDelete", ()))
    actions = [f"delete {p.metadata.name}" for p in members if _should_delete(p)]
    actions += [f"delete {p.metadata.name}" for p in members if p.metadata.name in named]
    if hosts == 1:
        difference = replicas - len(members)
        return actions + ([f"{group['groupName']}: {difference:+}"] if difference else [])
    slices: defaultdict[str, set[str]] = defaultdict(set)
    for pod in members:
        labels = pod.metadata.labels or {}
        if "ray.io/worker-group-replica-name" in labels:
            host = labels["ray.io/replica-host-index"]
            slices[labels["ray.io/worker-group-replica-name"]].add(host)
    whole = {str(host) for host in range(hosts)}
    actions += [f"delete replica {n}" for n, present in slices.items() if present != whole]
    difference = replicas - len(slices)
    return actions + ([f"{group['groupName']}: {difference:+} replicas"] if difference else [])


def _has(obj: Pod | Service, **wanted: str) -> bool:
    labels = obj.metadata.labels or {}
    return all(labels.get(f"ray.io/{key}") == value for key, value in wanted.items())


def _should_delete(pod: Pod) -> bool:
    return pod.status.phase in {"Failed", "Succeeded"}


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)

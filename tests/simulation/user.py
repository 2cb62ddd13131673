"""Carries out the steps of a scenario that are about objects of Ray, pods and nodes.

It is a user who sees the present, and fate. What the server refuses does not matter.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from functools import singledispatchmethod
from itertools import chain
from typing import Any

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.custom_object import conditions_of
from controller.kube.errors import KubeError, NotFound
from controller.kube.resources import NODES, PODS, SERVICES, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, labels
from controller.ray.api.rayservice import RAYSERVICES
from devcluster.nodes import ANNOTATION_PREFIX
from tests.fakes.gateways import CLASS
from tests.integration.harness import World, example_cluster
from tests.integration.rays import job_manifest
from tests.integration.rayservices import serve_config, service_manifest, with_image
from tests.simulation import scenario as s

NAMES = ("a", "b", "c")
JOB_NAMES = ("p", "q")
SERVICE_NAMES = ("s", "t")
NODE_COUNT = 2
STEPS = {
    "gatewayClassName": CLASS,
    "maxSurgePercent": 50,
    "stepSizePercent": 25,
    "intervalSeconds": 1,
}
"""Of incremental upgrades."""
NODE_TYPE = "ray.io/node-type"
IMAGES = {
    "ray": "rayproject/ray:2.60.0",
    "gpu": "rayproject/ray:2.60.0-gpu",
    "own": "registry.example.com/team/app:1",
}
"""Of rolling clusters; the first two are of the version that the simulated Ray says."""
KARPENTERS = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
GONE = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
CONTAINER = "template/spec/containers/0"
CONDITIONS = {
    "HeadPodReady",
    "RayClusterProvisioned",
    "ReplicaFailure",
    "RayClusterSuspending",
    "RayClusterSuspended",
}
"""Of RayClusters in KubeRay's definition."""
STORAGES: dict[str, dict[str, Any]] = {
    "redis": {"redisAddress": "redis:6379"},
    "rocksdb": {"backend": "rocksdb", "storage": {"size": "1Gi"}},
}


class User:
    """Does one thing at a time.

    Attributes:
        demand: what Ray's load needs, by cluster and group, for the autoscalers.
        jobs: what was created, by the uid of the RayJob.
        lost: names of the clusters of RayServices that were deleted.
        busy: held while something is done.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._client = world.user
        self._namespace = world.namespace
        self.demand: dict[str, dict[str, int]] = {name: {} for name in NAMES}
        self.jobs: dict[str, s.Job] = {}
        self.lost: set[str] = set()
        self.busy = asyncio.Lock()
        self._hidden: dict[str, str] = {}
        self._copied: dict[str, str] = {}  # workers that are not the operator's: their clusters

    async def act(self, action: s.AnyAction) -> str:
        """Do something; returns what the server said against it, empty if nothing."""
        try:
            async with self.busy:
                await self._do(action)
        except KubeError as error:
            return str(error)
        return ""

    async def heal(self) -> None:
        """Bring lost nodes and labels back, and let no pod crash any more."""
        for node in range(NODE_COUNT):
            await self.act(s.RestoreNode(node))
            await self.act(s.TakeNode(node, "back"))
        for pod in await self._pods():
            nothing = {ANNOTATION_PREFIX + key: None for key in ("outcome", "fail-after")}
            if ANNOTATION_PREFIX + "outcome" in (pod.metadata.annotations or {}):
                patch = {"metadata": {"annotations": nothing}}
                await self._client.merge_patch(PODS, self._namespace, pod.metadata.name, patch)
        for name, role in self._hidden.items():
            await self._label(name, role)
        for name, cluster in self._copied.items():
            await self._take_away(name, cluster)

    async def let_upgrades_end(self) -> None:
        """Resume rolling updates that are paused, and use images of the version that runs."""
        for number, name in enumerate(NAMES):
            with suppress(NotFound):
                spec = (await self._client.get_raw(RAYCLUSTERS, self._namespace, name))["spec"]
                strategy = spec.get("upgradeStrategy", {})
                if strategy.get("type") == "RollingUpdate":
                    await self._patch(number, _towards_the_end(spec))

    async def take_marks_off(self) -> None:
        """Leave of RayClusters, pods and services what KubeRay's operator would have written."""
        async with self.busy:
            for resource in (RAYCLUSTERS, PODS, SERVICES):
                for each in (await self._client.list(resource, self._namespace)).items:
                    with suppress(KubeError):
                        await self._take_marks_off(resource, each.metadata.name)

    async def _take_marks_off(self, resource: Resource[Any], name: str) -> None:
        where = resource, self._namespace, name
        obj = await self._client.get_raw(*where)
        marks = {
            field: {key: None for key in obj["metadata"].get(field, ()) if labels.OWN_PREFIX in key}
            for field in ("annotations", "labels")
        }
        if any(marks.values()):
            await self._client.merge_patch(*where, {"metadata": marks})
        conditions = obj.get("status", {}).get("conditions")
        if resource is RAYCLUSTERS and conditions:
            kept = [each for each in conditions if each["type"] in CONDITIONS]
            patch = {"status": {"conditions": kept}}
            await self._client.merge_patch(*where, patch, subresource="status")

    async def delete_what_is_held(self) -> None:
        """Do what the condition of a held deletion asks for: the user wants what he wrote."""
        for cluster in (await self._client.list(RAYCLUSTERS, self._namespace)).items:
            held = find_condition(conditions_of(cluster), "DeletionHeld")
            if held is not None:
                for name in held["message"].partition("(")[2].partition(")")[0].split(", "):
                    with suppress(KubeError):
                        await self._client.delete(PODS, self._namespace, name)

    @singledispatchmethod
    async def _do(self, action: Any) -> None:
        raise TypeError(f"nobody knows how to do {action}")

    # -- clusters -----------------------------------------------------------------------------

    @_do.register
    async def _(self, action: s.Create) -> None:
        name = NAMES[action.cluster]
        self.demand[name].clear()
        if action.body.rolling:  # else v1 may take the surge for what the user asks for
            groups = action.body.groups
            self.demand[name].update({f"g{each.number}": each.replicas for each in groups})
        await self._client.create(RAYCLUSTERS, self._namespace, manifest(name, action.body))

    @_do.register
    async def _(self, action: s.Delete) -> None:
        name = NAMES[action.cluster]
        await self._client.delete(
            RAYCLUSTERS, self._namespace, name, propagation=action.propagation
        )

    @_do.register
    async def _(self, action: s.Suspend) -> None:
        await self._edit_cluster(action.cluster, "suspend", action.suspend)

    @_do.register
    async def _(self, action: s.Wake) -> None:
        await self._edit_cluster(action.cluster, "idleSuspend", False)

    @_do.register
    async def _(self, action: s.Evict) -> None:
        pods = await self._pods(roles="head,worker")
        if pods:
            await self._evict(pods[action.pick % len(pods)].metadata.name)

    @_do.register
    async def _(self, action: s.TakeNode) -> None:
        name = f"manta-node-{action.node}"
        pods = [pod.metadata.name for pod in await self._pods() if pod.spec.node_name == name]
        if action.how == "vanish":
            for each in pods:
                await self._lose(each)
            return
        taints = [KARPENTERS] if action.how == "taint" else None
        spec = {"unschedulable": action.how in {"cordon", "drain"} or None, "taints": taints}
        await self._client.merge_patch(NODES, "", name, {"spec": spec})
        for each in pods if action.how == "drain" else ():
            with suppress(KubeError):  # a budget protects it
                await self._evict(each)

    async def _evict(self, name: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"{PODS.path(self._namespace, name)}/eviction"
        await self._client.request_json("POST", path, body=body)

    async def _lose(self, name: str) -> None:
        """End a pod as the garbage collector of pods does, whose node is gone."""
        conditions = (await self._client.get_raw(PODS, self._namespace, name))["status"]
        told = [*conditions.get("conditions", ()), GONE]
        patch = {"status": {"conditions": told}}
        await self._client.merge_patch(PODS, self._namespace, name, patch, subresource="status")
        await self._client.delete(PODS, self._namespace, name, grace_seconds=0)

    @_do.register
    async def _(self, action: s.ChangeStrategy) -> None:
        value = {"type": "Recreate" if action.recreate else "None"}
        await self._edit_cluster(action.cluster, "upgradeStrategy", value)

    @_do.register
    async def _(self, action: s.ChangeRolling) -> None:
        value = strategy_of(action.rolling) if action.rolling else {"type": "None"}
        await self._edit_cluster(action.cluster, "upgradeStrategy", value)

    @_do.register
    async def _(self, action: s.EditPods) -> None:
        edits = {
            f"{CONTAINER}/image": IMAGES[action.image],
            f"{CONTAINER}/env": [{"name": "EDITION", "value": str(action.edition)}],
        }
        if action.group == -1:
            changes = [("add", f"headGroupSpec/{path}", edits[path]) for path in edits]
            await self._patch(action.cluster, changes)
        elif action.group >= 0:
            await self._edit_group(action.cluster, action.group, edits)
        else:
            await self._edit_all_groups(action.cluster, edits)

    @_do.register
    async def _(self, action: s.ChangeStorage) -> None:
        value = STORAGES.get(action.storage)
        await self._edit_cluster(action.cluster, "gcsFaultToleranceOptions", value)

    @_do.register
    async def _(self, action: s.ChangeTemplate) -> None:
        image = f"rayproject/ray:2.{50 + action.image}.0"
        path = f"{CONTAINER}/image"
        if action.group >= 0:
            await self._edit_group(action.cluster, action.group, {path: image})
        else:
            await self._patch(action.cluster, [("replace", f"headGroupSpec/{path}", image)])

    # -- groups -------------------------------------------------------------------------------

    @_do.register
    async def _(self, action: s.Scale) -> None:
        await self._edit_group(action.cluster, action.group, {"replicas": action.replicas})

    @_do.register
    async def _(self, action: s.Bound) -> None:
        bounds = {"minReplicas": action.least, "maxReplicas": action.most}
        await self._edit_group(action.cluster, action.group, bounds)

    @_do.register
    async def _(self, action: s.ChangeHosts) -> None:
        await self._edit_group(action.cluster, action.group, {"numOfHosts": action.hosts})

    @_do.register
    async def _(self, action: s.SuspendGroup) -> None:
        cluster = await self._read(action.cluster)
        if not cluster["spec"].get("enableInTreeAutoscaling"):
            await self._edit_group(action.cluster, action.group, {"suspend": action.suspend})

    @_do.register
    async def _(self, action: s.NameWorkers) -> None:
        cluster = await self._read(action.cluster)
        groups = cluster["spec"].get("workerGroupSpecs", [])
        if not groups:
            return
        group = groups[action.group % len(groups)]
        pods = [
            pod.metadata.name
            for pod in await self._pods(NAMES[action.cluster])
            if (pod.metadata.labels or {}).get("ray.io/group") == group["groupName"]
        ]
        if not pods:
            return
        names = sorted({pods[pick % len(pods)] for pick in action.picks})
        edits: dict[str, Any] = {"scaleStrategy": {"workersToDelete": names}}
        if action.fewer:
            edits["replicas"] = max(0, group["replicas"] - len(names))
        await self._edit_group(action.cluster, action.group, edits)

    @_do.register
    async def _(self, action: s.AddGroup) -> None:
        cluster = await self._read(action.cluster)
        groups = cluster["spec"].get("workerGroupSpecs", [])
        added = group_spec(action.group)
        if added["groupName"] not in {group["groupName"] for group in groups}:
            await self._edit_cluster(action.cluster, "workerGroupSpecs", [*groups, added])

    @_do.register
    async def _(self, action: s.RemoveGroup) -> None:
        cluster = await self._read(action.cluster)
        groups = cluster["spec"].get("workerGroupSpecs", [])
        if groups:
            groups.pop(action.group % len(groups))
            await self._edit_cluster(action.cluster, "workerGroupSpecs", groups)

    @_do.register
    async def _(self, action: s.Demand) -> None:
        self.demand[NAMES[action.cluster]][f"g{action.group}"] = action.workers

    # -- jobs ---------------------------------------------------------------------------------

    @_do.register
    async def _(self, action: s.CreateJob) -> None:
        name = JOB_NAMES[action.job]
        body = manifest_of_job(name, action.body)
        created = await self._client.create(RAYJOBS, self._namespace, body)
        self.jobs[created.metadata.uid] = action.body

    @_do.register
    async def _(self, action: s.DeleteJob) -> None:
        name = JOB_NAMES[action.job]
        await self._client.delete(RAYJOBS, self._namespace, name, propagation=action.propagation)

    @_do.register
    async def _(self, action: s.SuspendJob) -> None:
        name = JOB_NAMES[action.job]
        job = await self._client.get_raw(RAYJOBS, self._namespace, name)
        if job["spec"].get("shutdownAfterJobFinishes"):
            patch = {"spec": {"suspend": action.suspend}}
            await self._client.merge_patch(RAYJOBS, self._namespace, name, patch)

    @_do.register
    async def _(self, action: s.DeleteJobCluster) -> None:
        job = await self._client.get_raw(RAYJOBS, self._namespace, JOB_NAMES[action.job])
        cluster = job.get("status", {}).get("rayClusterName")
        if cluster:
            await self._client.delete(RAYCLUSTERS, self._namespace, cluster)

    # -- services -----------------------------------------------------------------------------

    @_do.register
    async def _(self, action: s.CreateRayService) -> None:
        body = manifest_of_service(SERVICE_NAMES[action.service], action.body)
        await self._client.create(RAYSERVICES, self._namespace, body)

    @_do.register
    async def _(self, action: s.EditRayService) -> None:
        name = SERVICE_NAMES[action.service]
        present = (await self._client.get_raw(RAYSERVICES, self._namespace, name))["spec"]
        spec = manifest_of_service(name, action.body)["spec"]
        if "suspend" in present:
            spec["suspend"] = present["suspend"]
        operation = {"op": "replace", "path": "/spec", "value": spec}
        await self._client.json_patch(RAYSERVICES, self._namespace, name, [operation])

    @_do.register
    async def _(self, action: s.SuspendRayService) -> None:
        name, patch = SERVICE_NAMES[action.service], {"spec": {"suspend": action.suspend}}
        await self._client.merge_patch(RAYSERVICES, self._namespace, name, patch)

    @_do.register
    async def _(self, action: s.DeleteRayService) -> None:
        name = SERVICE_NAMES[action.service]
        propagation = action.propagation
        await self._client.delete(RAYSERVICES, self._namespace, name, propagation=propagation)

    @_do.register
    async def _(self, action: s.DeleteRayServiceCluster) -> None:
        name = SERVICE_NAMES[action.service]
        service = await self._client.get_raw(RAYSERVICES, self._namespace, name)
        recorded = service.get("status", {}).get(f"{action.role}ServiceStatus") or {}
        if cluster := recorded.get("rayClusterName"):
            self.lost.add(cluster)
            await self._client.delete(RAYCLUSTERS, self._namespace, cluster)

    # -- pods and nodes -----------------------------------------------------------------------

    @_do.register
    async def _(self, action: s.EndPod) -> None:
        roles = "head,worker" if action.how in {"replace", "hide"} else "head,worker,submitter"
        pods = await self._pods(roles=roles)
        if not pods:
            return
        pod = pods[action.pick % len(pods)]
        name = pod.metadata.name
        if action.how == "replace":
            await self._replace(name)
            return
        if action.how == "hide":
            self._hidden[name] = (pod.metadata.labels or {})[NODE_TYPE]
            await self._label(name, None)
            return
        if action.how in {"delete", "kill"}:
            grace = 0 if action.how == "kill" else None
            await self._client.delete(PODS, self._namespace, name, grace_seconds=grace)
            return
        wanted = {"outcome": action.how, "fail-after": "0"}
        annotations = {ANNOTATION_PREFIX + key: value for key, value in wanted.items()}
        patch = {"metadata": {"annotations": annotations}}
        await self._client.merge_patch(PODS, self._namespace, name, patch)

    async def _replace(self, name: str) -> None:
        """Kill a pod, and make another one that looks the same."""
        body = await self._client.get_raw(PODS, self._namespace, name)
        meta = body["metadata"]
        kept = {key: meta[key] for key in ("name", "labels", "ownerReferences")}
        kept["annotations"] = {
            key: value
            for key, value in meta.get("annotations", {}).items()
            if not key.startswith(ANNOTATION_PREFIX)
        }
        spec = {key: value for key, value in body["spec"].items() if key != "nodeName"}
        await self._client.delete(PODS, self._namespace, name, grace_seconds=0)
        copied = {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}
        await self._client.create(PODS, self._namespace, copied)
        if meta["labels"][NODE_TYPE] == "worker":
            self._copied[name] = meta["labels"]["ray.io/cluster"]

    async def _take_away(self, name: str, cluster: str) -> None:
        """Delete a copied worker of a cluster whose autoscaler would never give it up.

        Ray's autoscaler ignores a name that it has seen die, and the operator deletes no worker of
        its clusters that it does not name.
        """
        with suppress(NotFound):
            spec = (await self._client.get_raw(RAYCLUSTERS, self._namespace, cluster))["spec"]
            if spec.get("enableInTreeAutoscaling"):
                await self._client.delete(PODS, self._namespace, name)

    async def _label(self, name: str, role: str | None) -> None:
        """Give a pod the label by which the operator finds it; None takes it off."""
        patch = {"metadata": {"labels": {NODE_TYPE: role}}}
        with suppress(NotFound):
            await self._client.merge_patch(PODS, self._namespace, name, patch)

    @_do.register
    async def _(self, action: s.DeleteService) -> None:
        name = f"{NAMES[action.cluster]}-head-svc"
        await self._client.delete(SERVICES, self._namespace, name)

    @_do.register
    async def _(self, action: s.LoseNode) -> None:
        await self._connect(action.node, lost="true")

    @_do.register
    async def _(self, action: s.RestoreNode) -> None:
        await self._connect(action.node, lost=None)

    async def _connect(self, node: int, *, lost: str | None) -> None:
        patch = {"metadata": {"annotations": {ANNOTATION_PREFIX + "lost": lost}}}
        await self._client.merge_patch(NODES, "", f"manta-node-{node}", patch)

    # -- means --------------------------------------------------------------------------------

    async def _read(self, cluster: int) -> dict[str, Any]:
        return await self._client.get_raw(RAYCLUSTERS, self._namespace, NAMES[cluster])

    async def _pods(self, cluster: str = "", roles: str = "head,worker") -> list[Any]:
        selector = f"ray.io/node-type in ({roles})"
        if cluster:
            selector += f",ray.io/cluster={cluster}"
        listed = await self._client.list(PODS, self._namespace, label_selector=selector)
        return sorted(listed.items, key=lambda pod: pod.metadata.name)

    async def _edit_cluster(self, cluster: int, field: str, value: Any) -> None:
        """Set a field of the specification; None removes it."""
        if value is not None:
            await self._patch(cluster, [("add", field, value)])
        elif field in (await self._read(cluster))["spec"]:
            await self._patch(cluster, [("remove", field, None)])

    async def _edit_group(self, cluster: int, group: int, edits: dict[str, Any]) -> None:
        groups = (await self._read(cluster))["spec"].get("workerGroupSpecs", [])
        if groups:
            await self._patch(cluster, _changes(group % len(groups), edits))

    async def _edit_all_groups(self, cluster: int, edits: dict[str, Any]) -> None:
        groups = (await self._read(cluster))["spec"].get("workerGroupSpecs", [])
        changes = [_changes(group, edits) for group in range(len(groups))]
        await self._patch(cluster, list(chain(*changes)))

    async def _patch(self, cluster: int, changes: list[tuple[str, str, Any]]) -> None:
        operations = [
            {"op": op, "path": f"/spec/{path}"} | ({} if op == "remove" else {"value": value})
            for op, path, value in changes
        ]
        await self._client.json_patch(RAYCLUSTERS, self._namespace, NAMES[cluster], operations)


def _changes(group: int, edits: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [("add", f"workerGroupSpecs/{group}/{path}", edits[path]) for path in edits]


def _towards_the_end(spec: dict[str, Any]) -> list[tuple[str, str, Any]]:
    places = {"headGroupSpec": spec["headGroupSpec"]}
    for number, group in enumerate(spec.get("workerGroupSpecs", [])):
        places[f"workerGroupSpecs/{number}"] = group
    changes: list[tuple[str, str, Any]] = [
        ("replace", f"{where}/{CONTAINER}/image", IMAGES["ray"])
        for where, group in places.items()
        if group["template"]["spec"]["containers"][0]["image"] not in IMAGES.values()
    ]
    if "rayVersion" in spec:
        changes.append(("remove", "rayVersion", None))
    return [*changes, ("add", "upgradeStrategy/rollingUpdate/paused", False)]


def strategy_of(rolling: s.Rolling) -> dict[str, Any]:
    settings = {
        "maxSurge": rolling.surge,
        "maxUnavailable": rolling.unavailable,
        "maxParallelGroups": rolling.parallel,
        "drainTimeoutSeconds": rolling.drain,
        "progressDeadlineSeconds": rolling.deadline,
        "paused": rolling.paused,
    }
    return {"type": "RollingUpdate", "rollingUpdate": settings}


def manifest(name: str, cluster: s.Cluster) -> dict[str, Any]:
    body = example_cluster(name)
    spec = body["spec"]
    spec["workerGroupSpecs"] = [group_spec(group) for group in cluster.groups]
    if cluster.autoscaler:
        spec["enableInTreeAutoscaling"] = True
        spec["autoscalerOptions"] = {"version": cluster.autoscaler}
    if cluster.recreate:
        spec["upgradeStrategy"] = {"type": "Recreate"}
    if cluster.storage:
        spec["gcsFaultToleranceOptions"] = STORAGES[cluster.storage]
    if cluster.idle:
        spec["idleTerminationOptions"] = {"timeoutSeconds": cluster.idle}
    if cluster.budgets:
        spec["disruptionBudgets"] = {"workersMaxUnavailablePercent": 50}
    if cluster.graceful:
        spec["gracefulTerminationOptions"] = {"terminationGracePeriodSeconds": 20}
    if cluster.rolling:
        spec["upgradeStrategy"] = strategy_of(cluster.rolling)
        del spec["rayVersion"]  # of images that name none, the first pod has to show it
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            group["template"] = copy.deepcopy(group["template"])
            group["template"]["spec"]["containers"][0]["image"] = IMAGES["ray"]
    return body


def manifest_of_job(name: str, job: s.Job) -> dict[str, Any]:
    body = job_manifest(
        name,
        submissionMode=job.mode,
        backoffLimit=job.backoff,
        shutdownAfterJobFinishes=job.shutdown,
        ttlSecondsAfterFinished=job.ttl or None,
        activeDeadlineSeconds=job.deadline or None,
        preRunningDeadlineSeconds=job.pre_running or None,
        disruptionBackoffLimit=job.disruptions or None,
    )
    workers = [group_spec(s.Group(0, job.workers))] if job.workers else []
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"] = workers
    return body


def manifest_of_service(name: str, service: s.RayService) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": service.upgrade}
    incremental = service.upgrade == "NewClusterWithIncrementalUpgrade"
    if incremental:
        strategy["clusterUpgradeOptions"] = STEPS
    body = service_manifest(
        name,
        serveConfigV2=serve_config(f"greeting {service.config}"),
        upgradeStrategy=strategy,
        rayClusterDeletionDelaySeconds=service.delay,
    )
    bounds = {"replicas": service.workers, "minReplicas": 0, "maxReplicas": 3}
    body["spec"]["rayClusterConfig"]["workerGroupSpecs"][0] |= bounds
    if incremental:
        body["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = True
    return with_image(body, f"rayproject/ray:2.{50 + service.image}.0")


def group_spec(group: s.Group) -> dict[str, Any]:
    template = example_cluster()["spec"]["workerGroupSpecs"][0]["template"]
    return {
        "groupName": f"g{group.number}",
        "replicas": group.replicas,
        "minReplicas": group.least,
        "maxReplicas": group.most,
        "numOfHosts": group.hosts,
        "template": template,
    }

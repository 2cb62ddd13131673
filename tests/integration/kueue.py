"""A real Kueue beside a control plane, and a queue for the Ray objects of one namespace."""

from __future__ import annotations

import subprocess
from base64 import b64encode
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
import yaml

from controller.kube.transport import MERGE_PATCH
from controller.ray.api import custom_resource_definitions
from tests.integration.harness import REAL_KUBECONFIG, World
from tests.lab.control_plane import plane_in
from tests.lab.programs import kubectl, manifests_of
from tests.ports import free_ports

SYSTEM = "kueue-system"
SERVICE = "kueue-webhook-service"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
ELASTIC = "kueue.x-k8s.io/elastic-job"
URGENT = "urgent"
FLAVOR = {"manta.test/flavor": "reserved"}
CONVERTED = {"localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters"}
"""Kinds whose versions Kueue converts; it gives their definitions its certificate."""

FRAMEWORKS = ["batch/job", "pod", "ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice"]


class Queue:
    """A queue in the namespace of a world, with a quota of CPUs."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def open(self, cpu: int, **spec: Any) -> None:
        """Create flavor, cluster queue and local queue; `spec` is added to the cluster queue's."""
        name = self.world.namespace
        quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}]
        group = {
            "coveredResources": [quota["name"] for quota in quotas],
            "flavors": [{"name": name, "resources": quotas}],
        }
        await self._create("ResourceFlavor", {"nodeLabels": FLAVOR})
        await self._create(
            "ClusterQueue",
            {
                "namespaceSelector": {},
                "resourceGroups": [group],
                "preemption": {"withinClusterQueue": "LowerPriority"},
                **spec,
            },
        )
        await self._create("LocalQueue", {"clusterQueue": name}, name="team", namespaced=True)
        await self._create("WorkloadPriorityClass", {"value": 1000})

    async def open_multikueue(self) -> None:
        """Open the queue to another cluster, which cannot be reached."""
        name = self.world.namespace
        secret = {"location": name, "locationType": "Secret"}
        await self._create("MultiKueueCluster", {"clusterSource": {"kubeConfig": secret}})
        await self._create("MultiKueueConfig", {"clusters": [name]})
        config = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
        check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config}
        await self._create("AdmissionCheck", check)
        checks = {"admissionChecks": [{"name": name}]}
        await self.open(3, admissionChecksStrategy=checks)

    async def checks(self) -> list[dict[str, Any]]:
        """Conditions of the cluster queue, once Kueue has seen it."""
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.world.namespace}"
        found = await self.world.user.request_json("GET", path)
        return found.get("status", {}).get("conditions", [])

    async def patch(self, **spec: Any) -> None:
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.world.namespace}"
        await self._merge(path, spec)

    async def workloads(self, owner: str) -> list[dict[str, Any]]:
        """The Workloads of an object that are not finished."""
        found = await self.world.user.request_json("GET", self._workloads())
        return [
            each
            for each in found["items"]
            if [ref["name"] for ref in each["metadata"]["ownerReferences"]] == [owner]
            and state_of(each, "Finished") != "True"
        ]

    async def workload(self, owner: str) -> dict[str, Any]:
        [found] = await self.world.eventually(lambda: self.workloads(owner))
        return found

    async def is_admitted(self, owner: str) -> bool:
        return [state_of(each, "Admitted") for each in await self.workloads(owner)] == ["True"]

    async def activate(self, owner: str, *, active: bool) -> None:
        """Evict what an administrator does not want to run, or let it queue again."""
        name = (await self.workload(owner))["metadata"]["name"]
        await self._merge(f"{self._workloads()}/{name}", {"active": active})

    async def preempt(self, cpu: int) -> None:
        requests = {"cpu": str(cpu), "memory": "1Gi"}
        container = {"name": "main", "image": "busybox:1", "resources": {"requests": requests}}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": URGENT, "labels": {QUEUE: "team", PRIORITY: self.world.namespace}},
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }
        await self.world.user.request_json("POST", self._jobs(), body=body)

    async def relent(self) -> None:
        await self.world.user.request_json(
            "DELETE", f"{self._jobs()}/{URGENT}", body={"propagationPolicy": "Background"}
        )

    def _workloads(self) -> str:
        return f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.world.namespace}/workloads"

    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.world.namespace}/jobs"

    async def _merge(self, path: str, spec: dict[str, Any]) -> None:
        await self.world.user.request_json(
            "PATCH", path, body={"spec": spec}, content_type=MERGE_PATCH
        )

    async def _create(
        self, kind: str, spec: dict[str, Any], *, name: str = "", namespaced: bool = False
    ) -> None:
        within = f"namespaces/{self.world.namespace}/" if namespaced else ""
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {"name": name or self.world.namespace},
            **(spec if "value" in spec else {"spec": spec}),
        }
        plural = "workloadpriorityclasses" if "value" in spec else f"{kind.lower()}s"
        path = f"/apis/kueue.x-k8s.io/v1beta2/{within}{plural}"
        await self.world.user.request_json("POST", path, body=body)


def state_of(workload: dict[str, Any], kind: str) -> str:
    """The status of a Workload's condition; empty if there is none."""
    conditions = workload.get("status", {}).get("conditions", ())
    return next((each["status"] for each in conditions if each["type"] == kind), "")


@contextmanager
def running_kueue() -> Generator[None]:
    """Run Kueue beside this process's control plane, with its webhooks as long as it runs."""
    plane = plane_in(Path(REAL_KUBECONFIG).parent)
    webhook_port, health_port = free_ports(2)
    certificates = plane.folder / "kueue-certs"
    certificates.mkdir(exist_ok=True)
    url = f"https://127.0.0.1:{webhook_port}"
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": FRAMEWORKS},
        "featureGates": {"VisibilityOnDemand": False, "ElasticJobsViaWorkloadSlices": True},
    }
    (plane.folder / "kueue.yaml").write_text(yaml.safe_dump(config))
    webhooks = list(_webhooks(url))
    _apply(plane.folder, [*_definitions(url), *_secret(certificates), *webhooks])
    try:
        with plane.program(
            "kueue",
            f"--config={plane.folder / 'kueue.yaml'}",
            f"--kubeconfig={plane.kubeconfig}",
            ready=f"http://127.0.0.1:{health_port}/readyz",
        ):
            yield
    finally:  # without Kueue they would refuse the objects of other tests
        for each in webhooks:
            _kubectl("delete", each["kind"], each["metadata"]["name"])


def _definitions(url: str) -> Iterator[dict[str, Any]]:
    """Manta's and Kueue's; Kueue's ask it to convert versions."""
    yield from custom_resource_definitions()
    for path in manifests_of("kueue", "crds"):
        definition = yaml.load(path.read_text(), yaml.CSafeLoader)
        if definition["spec"]["names"]["plural"] in CONVERTED:
            convert = {
                "clientConfig": {"url": f"{url}/convert"},
                "conversionReviewVersions": ["v1"],
            }
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": convert}
        yield definition


def _webhooks(url: str) -> Iterator[dict[str, Any]]:
    """Kueue's configurations, which lead to its port instead of a Service."""
    [path] = (each for each in manifests_of("kueue", "webhook") if each.stem == "manifests")
    for body in yaml.safe_load_all(path.read_text()):
        body["metadata"]["name"] = f"kueue-{body['metadata']['name']}"
        for each in body["webhooks"]:
            each["clientConfig"] = {"url": url + each["clientConfig"]["service"]["path"]}
        yield body


def _secret(folder: Path) -> Iterator[dict[str, Any]]:
    """The certificate that Kueue serves with, in a folder as a kubelet would mount it."""
    # Kueue checks that an authority is called so; one that is in the pool of roots proves itself.
    names = ("kueue-ca", f"{SERVICE}.{SYSTEM}.svc", "127.0.0.1")
    served = trustme.CA().issue_cert(*names, common_name=SERVICE, key_type=trustme.KeyType.RSA)
    pair = (served.cert_chain_pems[0].bytes(), served.private_key_pem.bytes())
    files = dict(zip(("ca.crt", "ca.key", "tls.crt", "tls.key"), pair * 2, strict=True))
    for name, content in files.items():
        (folder / name).write_bytes(content)
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    yield {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": SYSTEM},
        "data": {name: b64encode(content).decode() for name, content in files.items()},
    }


def _apply(folder: Path, objects: list[dict[str, Any]]) -> None:
    """Server-side apply, whatever an earlier Kueue has left."""
    file = folder / "kueue-objects.yaml"
    file.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper))
    _kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    kinds = [each["metadata"]["name"] for each in objects if "Definition" in each["kind"]]
    _kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in kinds))


def _kubectl(*arguments: str) -> None:
    command = kubectl()
    assert command is not None
    done = subprocess.run(
        [command, f"--kubeconfig={REAL_KUBECONFIG}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

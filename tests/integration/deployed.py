"""What a chart renders, applied to an API server over the network and run as a kubelet runs it.

The API server is the embedded one with RBAC, in real time, or with `make test-real` a real one.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from controller.command.development.embedded_cluster import embedded_cluster
from controller.kube.client import Client
from controller.kube.kubeconfig import load_credentials
from controller.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from devcluster.apiserver.authorization import Attributes
from devcluster.nodes import NodeSettings
from tests.chart.helm import ROOT, only
from tests.integration.harness import REAL_KUBECONFIG, real_world

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_ACCOUNTS = "system:serviceaccount:"
_GROUPS = {
    "ServiceAccount": "api/v1",
    "ConfigMap": "api/v1",
    "Role": "apis/rbac.authorization.k8s.io/v1",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1",
}
"""Kinds of a chart that matter to a process that runs on its own."""


class Asked(NamedTuple):
    """A request of a service account."""

    verb: str
    resource: str
    home: str
    """The account's namespace."""
    allowed: bool


@dataclass
class Site:
    """An API server that charts are applied to."""

    client: Client
    url: str
    authority: bytes
    requests: Callable[[], Iterable[Asked]]
    prefix: str
    kubeconfig: str

    def namespace(self, name: str) -> str:
        """A namespace of this test alone."""
        return f"{name}-{self.prefix}"

    async def create_namespaces(self, *names: str) -> None:
        for name in names:
            await self.client.create(NAMESPACES, "", {"metadata": {"name": name}})

    @asynccontextmanager
    async def applied(self, objects: Iterable[Mapping[str, Any]]) -> AsyncIterator[None]:
        """Create the account and its rights; what is in no namespace goes with the block."""
        async with AsyncExitStack() as stack:
            for each in objects:
                if path := _path(each):
                    await self.client.request_json("POST", path, body=each)
                    if "namespace" not in each["metadata"]:
                        own = f"{path}/{each['metadata']['name']}"
                        stack.push_async_callback(self.client.request_json, "DELETE", own)
            yield

    async def token(self, namespace: str, account: str) -> str:
        path = SERVICE_ACCOUNTS.path(namespace, account, "token")
        answer = await self.client.request_json("POST", path, body={"spec": {}})
        return answer["status"]["token"]

    def asked(self, namespace: str) -> set[Asked]:
        """What the accounts of a namespace have asked for, each request once."""
        return {each for each in self.requests() if each.home == namespace}


def _path(obj: Mapping[str, Any]) -> str:
    root = _GROUPS.get(obj["kind"], "")
    if not root:
        return ""
    plural = f"{obj['kind'].lower()}s"
    namespace = obj["metadata"].get("namespace")
    return f"/{root}/namespaces/{namespace}/{plural}" if namespace else f"/{root}/{plural}"


@asynccontextmanager
async def site(definitions: Iterable[Mapping[str, Any]]) -> AsyncIterator[Site]:
    """The API server of this run; the embedded one serves `definitions`."""
    prefix = uuid.uuid4().hex[:6]
    if REAL_KUBECONFIG:
        admin = await load_credentials(kubeconfig=REAL_KUBECONFIG, context=None)
        folder = Path(REAL_KUBECONFIG).parent
        async with real_world(REAL_KUBECONFIG) as world:
            yield Site(
                world.user,
                admin.endpoint.url,
                (folder / "certs" / "apiserver.crt").read_bytes(),
                lambda: _audited(folder / "audit.log"),
                prefix,
                (folder / Path(REAL_KUBECONFIG).name).read_text(),
            )
        return
    async with embedded_cluster(port=0, crds=definitions, nodes=NodeSettings()) as cluster:
        seen: list[Asked] = []
        rbac = cluster.server.audit.authorizer
        assert rbac is not None

        def authorize(attributes: Attributes) -> bool:
            allowed = rbac(attributes)
            if attributes.user.startswith(_ACCOUNTS):
                seen.append(_asked_of(attributes, allowed=allowed))
            return allowed

        cluster.server.audit.authorizer = authorize
        yield Site(
            cluster.client("test-user"),
            cluster.url,
            cluster.authority,
            lambda: seen,
            prefix,
            _kubeconfig(cluster.kubeconfig_cluster(), cluster.kubeconfig_user()),
        )


def _kubeconfig(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    return json.dumps(config)


def _asked_of(attributes: Attributes, *, allowed: bool) -> Asked:
    resource = f"{attributes.resource}.{attributes.group}".rstrip(".")
    return Asked(attributes.verb, resource, attributes.user.split(":")[2], allowed)


def _audited(log: Path) -> Iterator[Asked]:
    """The requests of service accounts in the log of a real API server."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        if "resource" not in about:
            continue
        words = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        yield Asked(
            event["verb"],
            f"{words}.{about.get('apiGroup', '')}".rstrip("."),
            event["user"]["username"].split(":")[2],
            event["annotations"]["authorization.k8s.io/decision"] == "allow",
        )


def namespaces_work() -> bool:
    """Whether this machine lets a process have mounts of its own."""
    if not shutil.which("unshare"):
        return False
    command = ["unshare", "--map-root-user", "--mount", "--uts", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass
class Container:
    """The operator's process."""

    popen: subprocess.Popen[bytes]
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far."""
        return [
            json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")
        ]

    def cpu_seconds(self) -> float:
        """Time of the processor that it has taken so far."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def container_of(
    site: Site, objects: list[dict[str, Any]], folder: Path, programs: Mapping[str, Sequence[str]]
) -> AsyncIterator[Container]:
    """Run the only container of the Deployment among `objects`, with its account and its mounts.

    Args:
        site: where the account is known.
        objects: what the chart renders.
        folder: for the mounts and the log.
        programs: what is run for the commands of the image.
    """
    deployment = only("Deployment", objects)
    pod = deployment["spec"]["template"]["spec"]
    namespace = deployment["metadata"]["namespace"]
    token = await site.token(namespace, pod["serviceAccountName"])
    files = {"token": token.encode(), "ca.crt": site.authority, "namespace": namespace.encode()}
    popen = _start(site, objects, folder, programs, files)
    try:
        yield Container(popen, folder / "operator.log")
    finally:
        if popen.poll() is None:
            popen.kill()
        await asyncio.to_thread(popen.wait)


def _start(
    site: Site,
    objects: list[dict[str, Any]],
    folder: Path,
    programs: Mapping[str, Sequence[str]],
    account: Mapping[str, bytes],
) -> subprocess.Popen[bytes]:
    deployment = only("Deployment", objects)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    host, port = site.url.removeprefix("https://").split(":")
    mounts = {ACCOUNT_FOLDER: account} | dict(_mounts(pod, container, objects))
    name, *rest = container["command"]
    given = {each["name"]: str(each.get("value", "")) for each in container.get("env", ())}
    server = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    with (folder / "operator.log").open("wb") as output:
        return subprocess.Popen(
            [
                *("unshare", "--map-root-user", "--mount", "--uts", "sh", "-ec"),
                _script(mounts, folder, deployment["metadata"]["name"]),
                *("sh", *programs[name], *rest, *container.get("args", ())),
            ],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env={"PATH": os.environ["PATH"], **server, **given},
        )


def _mounts(
    pod: Mapping[str, Any], container: Mapping[str, Any], objects: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Paths in the container with their files."""
    maps = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    volumes = {each["name"]: each for each in pod.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        source = volumes[mount["name"]].get("configMap", {}).get("name")
        data = maps[source]["data"] if source else {}
        yield mount["mountPath"], {key: text.encode() for key, text in data.items()}


def _script(mounts: Mapping[str, Mapping[str, bytes]], folder: Path, name: str) -> str:
    """Shell lines that mount the files and become the program."""
    lines: list[str] = []
    for path, files in mounts.items():
        top = Path(*Path(path).parts[:3]) if path.startswith("/var") else Path("/etc")
        stand_in = folder / top.relative_to("/")
        if str(top) == "/etc" and not stand_in.exists():
            stand_in.parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", "/etc", stand_in], capture_output=True, check=False)
        place = folder / path.lstrip("/")
        place.mkdir(parents=True)
        for file, content in files.items():
            (place / file).write_bytes(content)
        lines.append(f"mount --bind {stand_in} {top}")
    return "\n".join([*dict.fromkeys(lines), f"hostname {name}", 'exec "$@"'])


MANAGER = {"/manager": (sys.executable, "-m", "controller.command.manager")}
"""What the image has under that name."""


def definitions_in(folder: Path) -> list[dict[str, Any]]:
    """The definitions that a chart ships."""
    return [
        each
        for file in sorted(folder.iterdir())
        for each in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader)
        if each
    ]

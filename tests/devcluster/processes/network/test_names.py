"""What pods know by name, and which pods are behind a service."""

from __future__ import annotations

from controller.kube.objects import ObjectMeta, Service, ServicePort, ServiceSpec
from devcluster.nodes.objects import RawEndpointSlice
from devcluster.processes.network import Backend, addresses, backends
from devcluster.processes.pod_sandbox import hosts_file

NAMES = {("default", "head"): ("10.96.0.7",), ("other", "head"): ("10.88.0.2", "10.88.0.3")}


def known(**more):
    """Addresses by name in the hosts file of a pod."""
    usual = {"namespace": "default", "hostname": "pod-1", "ip": "10.88.0.9"}
    found = {}
    for line in hosts_file(NAMES, **usual | more).splitlines():
        address, *names = line.split()
        for name in names:
            found.setdefault(name, []).append(address)
    return found


def service(cluster_ip="10.96.0.7", *ports):
    return Service(
        metadata=ObjectMeta(name="head", namespace="default"),
        spec=ServiceSpec(cluster_ip=cluster_ip, ports=ports),
    )


def endpoint_slice(*endpoints, port=6379, name="gcs"):
    return RawEndpointSlice(
        endpoints=[
            {"addresses": [ip], "conditions": {"ready": ready, "serving": ready}}
            for ip, ready in endpoints
        ],
        ports=[{"name": name, "port": port, "protocol": "TCP"}],
    )


def test_a_service_is_known_by_its_four_names_in_its_own_namespace():
    names = known()
    for name in ("head", "head.default", "head.default.svc", "head.default.svc.cluster.local"):
        assert names[name] == ["10.96.0.7"]


def test_a_service_of_another_namespace_has_no_short_name():
    assert known(namespace="third").get("head") is None
    assert known()["head.other"] == ["10.88.0.2", "10.88.0.3"]


def test_a_pod_knows_itself_by_its_hostname_even_if_a_service_has_that_name():
    assert known()["pod-1"] == ["10.88.0.9"]
    assert known(hostname="head")["head"] == ["10.88.0.9"]
    assert known(hostname="head")["head.default.svc"] == ["10.96.0.7"]


def test_only_ready_pods_are_behind_a_service():
    slices = [endpoint_slice(("10.88.0.2", True), ("10.88.0.3", False))]
    assert backends(ServicePort(name="gcs", port=1), slices) == (Backend("10.88.0.2", 6379),)
    assert backends(ServicePort(name="other", port=1), slices) == ()


def test_a_headless_service_means_its_ready_pods():
    slices = [endpoint_slice(("10.88.0.3", True)), endpoint_slice(("10.88.0.2", True))]
    assert addresses(service("None"), slices) == ("10.88.0.2", "10.88.0.3")
    assert addresses(service(), slices) == ("10.96.0.7",)
    assert addresses(service("None"), []) == ()

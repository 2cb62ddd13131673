"""Services: that of a head, the stable ones before it, and what of an existing one is repaired."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from controller.apimachinery.metadata import owner_reference
from controller.apimachinery.patches import difference
from controller.kube.objects import ObjectMeta, Pod, Service, ServiceSpec
from controller.kube.resources import SERVICES, Resource
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.children import Body, DesiredFields, OwnedKeys, all_fields, body_of
from controller.ray.head import HeadEndpoint, Identity, head_endpoint


def head_service(
    spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint, *, cluster_ip: bool
) -> Body:
    """Return the head service: generated, or the user's own with selector and ports completed.

    `cluster_ip` is whether a generated service gets a cluster IP.
    """
    group = spec.head_group_spec
    generated = [
        {"name": name, "port": number, "appProtocol": "tcp"}
        for name, number in endpoint.ports.items()
    ]
    ports = _completed([], generated)
    if group.head_service is None:
        service_spec: Body = {"ports": sorted(ports, key=lambda port: port["name"])}
        if group.service_type in {"", "ClusterIP"} and not cluster_ip:
            service_spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    else:
        service_spec = copy.deepcopy(group.head_service.get("spec", {}))
        service_spec["ports"] = _completed(service_spec.get("ports", []), ports)
    service_spec["selector"] = dict(endpoint.selector)
    service_spec.setdefault("type", group.service_type or "ClusterIP")
    return body_of(SERVICES, _head_metadata(spec, identity, endpoint), spec=service_spec)


def _head_metadata(spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint) -> Body:
    given: Body = (spec.head_group_spec.head_service or {}).get("metadata", {})
    own = identity.pod_labels(labels.HEAD, labels.HEAD_GROUP)
    del own[labels.GROUP], own[labels.IS_RAY_NODE]
    own[labels.APP_NAME] = endpoint.selector.get(labels.APP_NAME, labels.APP_NAME_VALUE)
    metadata: Body = {
        "name": identity.head_service,
        "namespace": identity.namespace,
        "labels": given.get("labels", {}) | own,
        "ownerReferences": [identity.owner],
    }
    annotations = given.get("annotations", {}) | (spec.head_service_annotations or {})
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _completed(own: list[Body], ports: list[Body]) -> list[Body]:
    """Return the user's ports, and each generated port whose name and number are free."""
    result = [{**port, "name": port.get("name") or f"{port['port']}-port"} for port in own]
    names = {port["name"] for port in result}
    numbers = {port["port"] for port in result if port.get("protocol", "TCP") == "TCP"}
    for port in ports:
        if port["name"] not in names and port["port"] not in numbers:
            result.append(port)
            numbers.add(port["port"])
    return result


# `<owner>-head-svc`, the service for the head of whichever cluster a RayJob or RayService uses.
#
# It keeps its name over all attempts and upgrades; only the cluster that it selects changes.

_EXCLUSIVE_FIELDS: Final = ("clusterIP", "clusterIPs", "loadBalancerIP", "healthCheckNodePort")
"""Fields of the cluster's head service that a second service must not repeat."""


def stable_head_service_name(owner: ObjectMeta) -> str:
    """Return the name of the stable service for the head."""
    return f"{owner.name}-head-svc"


def stable_head_service(
    kind: Resource[Any],
    owner: ObjectMeta,
    cluster: RayCluster,
    spec: ClusterSpec,
    heads: Iterable[Pod],
    *,
    domain: str,
    cluster_ip: bool,
) -> Body:
    """Return the service that leads to the head of `cluster`.

    The cluster is that which the owner, a RayJob or RayService, uses now.
    """
    identity = Identity.of(cluster, spec, domain=domain)
    endpoint = head_endpoint(spec, identity, heads)
    body = head_service(spec, identity, endpoint, cluster_ip=cluster_ip)
    own = {
        labels.NODE_TYPE: labels.HEAD,
        labels.IDENTIFIER: checked_label(f"{owner.name}-{labels.HEAD}"),
    }
    metadata = stable_service_metadata(kind, owner, stable_head_service_name(owner), own)
    if annotations := body["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata, "spec": _without_exclusive_fields(body["spec"])}


def stable_service_metadata(
    kind: Resource[Any], owner: ObjectMeta, name: str, own_labels: dict[str, str]
) -> Body:
    """Return the metadata of a service of a RayJob or RayService, not of a cluster."""
    origin = {labels.ORIGIN_NAME: owner.name, labels.ORIGIN_KIND: kind.kind}
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": own_labels | origin,
        "ownerReferences": [owner_reference(kind, owner)],
    }


def _without_exclusive_fields(service_spec: Body) -> Body:
    """Return the specification without fields that only one service can have."""
    kept = copy.deepcopy(service_spec)
    headless = kept.get("clusterIP") == "None"
    for name in _EXCLUSIVE_FIELDS:
        kept.pop(name, None)
    for port in kept["ports"]:
        port.pop("nodePort", None)
    return kept | ({"clusterIP": "None"} if headless else {})


# The desired fields of an existing service.
#
# The cluster IP never changes. Allocated node ports and ports that others have added are kept. The
# whole selector is owned, because an additional key makes it select nothing.


_IMMUTABLE: Final = ("clusterIP", "clusterIPs", "ipFamilies")
_EXPOSED: Final = frozenset({"NodePort", "LoadBalancer"})


def desired_service_fields(
    body: Mapping[str, Any], present: Service, formerly: OwnedKeys
) -> DesiredFields:
    """Return the desired fields of an existing service."""
    fields = dict(all_fields(body, present, formerly).fields)
    spec: Body = dict(fields["spec"])
    immutable = [*_drop_immutable(spec, present.spec), *_drop_type(spec, present.spec)]
    spec["selector"] = _exactly(spec["selector"], present.spec.selector)
    ports = _merged(
        spec.pop("ports", ()),
        present.spec,
        formerly.get("ports", frozenset()),
        exposed=spec.get("type", present.spec.type) in _EXPOSED,
    )
    if ports is not None:
        spec["ports"] = ports
    return DesiredFields(fields | {"spec": spec}, tuple(immutable))


def _drop_immutable(spec: Body, now: ServiceSpec) -> Iterable[str]:
    """Remove fields that only a create can set; yield a sentence for each that differs."""
    shown: Body = msgspec.to_builtins(now)
    for name in _IMMUTABLE:
        wanted = spec.pop(name, None)
        if wanted and shown[name] and difference(shown, {name: wanted}):
            yield _sentence(name, shown[name], wanted)


def _drop_type(spec: Body, now: ServiceSpec) -> Iterable[str]:
    """Remove a type with node ports if the service is headless."""
    if now.cluster_ip == "None" and spec["type"] in _EXPOSED:
        yield _sentence("type", "headless ClusterIP", spec.pop("type"))


def _sentence(field: str, now: Any, wanted: Any) -> str:
    is_now, is_wanted = (
        value if isinstance(value, str) else ", ".join(value) for value in (now, wanted)
    )
    return (
        f"spec.{field} is {is_now}, {is_wanted} is wanted, and it cannot be changed; "
        "delete the service so that it is created again"
    )


def _exactly(wanted: Mapping[str, str], now: Mapping[str, str] | None) -> dict[str, str | None]:
    return {key: None for key in now or {} if key not in wanted} | dict(wanted)


def _merged(
    wanted: Iterable[Mapping[str, Any]],
    now: ServiceSpec,
    formerly: Collection[str],
    *,
    exposed: bool,
) -> list[Body] | None:
    """Return all ports, the owned ones as desired, matched by name; None if nothing differs.

    A port of another name at an owned number is an owned one that was renamed: a service cannot
    have both.
    """
    missing = {port["name"]: _filled(port) for port in wanted}
    numbers = {_number(port) for port in missing.values()}
    present = [_filled(msgspec.to_builtins(port)) for port in now.ports]
    merged: list[Body] = []
    for port in present:
        ours = missing.pop(port.get("name", ""), None)
        if ours is not None:
            merged.append(port | ours)
        elif port.get("name") not in formerly and _number(port) not in numbers:
            merged.append(port)
    merged += missing.values()
    if not exposed:
        merged = [{key: port[key] for key in port if key != "nodePort"} for port in merged]
    return None if merged == present else merged


def _number(port: Body) -> tuple[str, Any]:
    """Return protocol and number, by which the server tells ports apart; None if it lacks one."""
    return port["protocol"], port.get("port")


def _filled(port: Mapping[str, Any]) -> Body:
    """Return a port with the server's defaults and without empty fields."""
    given = {key: value for key, value in port.items() if value}
    return {"protocol": "TCP", "targetPort": port["port"]} | given

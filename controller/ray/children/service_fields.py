"""The desired fields of an existing service.

The cluster IP never changes. Allocated node ports and ports that others have added are kept. The
whole selector is owned, because an additional key makes it select nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.patches import difference
from controller.ray.children.child import DesiredFields, all_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controller.kube.objects import Service, ServiceSpec
    from controller.ray.children.child import Body, OwnedKeys

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

"""The downward API: values of a pod's own fields for variables and volumes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.quantity import QuantityError, quantity_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.devcluster.processes.specification.specification import (
        ContainerSpecification,
        FieldReference,
        ResourceReference,
        SpecifiedPod,
    )
    from controller.kube.objects import ObjectMeta

_ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class UnsupportedFieldReference(Exception):  # noqa: N818  it is about the pod, not about this program
    """A reference names a field, container or resource that does not exist."""


@dataclass(frozen=True, slots=True)
class DownwardValues:
    """Values that the machine adds to a pod's fields.

    Attributes:
        pod_ip: the pod's address.
        host_ip: the node's address.
        cpus: processors of the node, for containers without a limit.
        memory: bytes of memory of the node, for containers without a limit.
    """

    pod_ip: str
    host_ip: str
    cpus: int
    memory: int


def field_value(
    reference: FieldReference, pod: SpecifiedPod, meta: ObjectMeta, downward: DownwardValues
) -> str:
    """Return the value of a `fieldRef`.

    Args:
        reference: the reference.
        pod: the pod in its state at the start.
        meta: its present metadata.
        downward: values that the machine adds.

    Raises:
        UnsupportedFieldReference: there is no such field.
    """
    path = reference.field_path
    if match := _ENTRY.fullmatch(path):
        entries = (meta.labels if match[1] == "labels" else meta.annotations) or {}
        return entries.get(match[2], "")
    values = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "metadata.labels": _listed(meta.labels),
        "metadata.annotations": _listed(meta.annotations),
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.hostIP": downward.host_ip,
        "status.hostIPs": downward.host_ip,
        "status.podIP": downward.pod_ip,
        "status.podIPs": downward.pod_ip,
    }
    if path not in values:
        raise UnsupportedFieldReference(f"unsupported fieldPath: {path}")
    return values[path]


def resource_value(
    reference: ResourceReference,
    pod: SpecifiedPod,
    container: ContainerSpecification | None,
    downward: DownwardValues,
) -> str:
    """Return the value of a `resourceFieldRef`: a whole number of divisors, rounded up.

    `container` is the one that refers to itself; volumes name one.

    Raises:
        UnsupportedFieldReference: there is no such container or resource, or its quantity is
            invalid.
    """
    if reference.container_name:
        named = (c for c in pod.spec.all_containers if c.name == reference.container_name)
        container = next(named, None)
    if container is None:
        raise UnsupportedFieldReference(f"no container {reference.container_name!r} in the pod")
    group, _, resource = reference.resource.partition(".")
    if group not in {"limits", "requests"} or not resource:
        raise UnsupportedFieldReference(f"unsupported container resource: {reference.resource}")
    limits, requests = container.resources.limits, container.resources.requests
    given = limits.get(resource) if group == "limits" else requests.get(resource)
    whole = {"cpu": str(downward.cpus), "memory": str(downward.memory)} if group == "limits" else {}
    try:
        amount = quantity_value(whole.get(resource, "0") if given is None else given)
        divisor = quantity_value(reference.divisor) or Decimal(1)
    except QuantityError as error:
        raise UnsupportedFieldReference(
            f"{reference.resource} of container {container.name}: {error}"
        ) from error
    return str(int((amount / divisor).to_integral_value(ROUND_CEILING)))


def _listed(entries: Mapping[str, str] | None) -> str:
    """Return one `key="value"` a line, as the volume shows all labels."""
    lines = (
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted((entries or {}).items())
    )
    return "\n".join(lines)

"""What is not as it should be of RayServices and what they were made of, when peace has come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from tests.simulation.service_referee import ROLES, owners, selected
from tests.simulation.witnessed_ray import WitnessedRay

Object = dict[str, Any]


def service_shortcomings(
    services: list[Object], clusters: list[Object], stable: list[Object], ray: WitnessedRay
) -> list[str]:
    """Sentences; none if each RayService serves what its user wants, on one cluster.

    Args:
        ray: tells what is served.
    """
    wrong = [sentence for service in services for sentence in _status(service)]
    if wrong:
        return wrong
    for service in services:
        uid = service["metadata"]["uid"]
        own = [each for each in clusters if uid in owners(each)]
        wrong += _made(service, own, [each for each in stable if uid in owners(each)], ray)
    known = {service["metadata"]["uid"] for service in services}
    for each in (*clusters, *stable):
        if _is_of_service(each) and not known & set(owners(each)):
            wrong.append(f"{each['metadata']['name']} is left of a RayService that is gone")
    return wrong


def _status(service: Object) -> Iterator[str]:
    meta, status = service["metadata"], service.get("status", {})
    name = meta["name"]
    if "deletionTimestamp" in meta:
        yield f"{name} is not gone; finalizers {meta.get('finalizers')}"
        return
    state = "Suspended" if service["spec"].get("suspend") else "Ready"
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    if true != {state}:
        yield f"{name} is not just {state}; conditions {status.get('conditions')}"
    if status.get("observedGeneration") != meta["generation"]:
        yield f"{name} observed generation {status.get('observedGeneration')}"


def _made(
    service: Object, clusters: list[Object], stable: list[Object], ray: WitnessedRay
) -> Iterator[str]:
    """What a RayService has, besides what it should have."""
    name, status = service["metadata"]["name"], service["status"]
    names = [each["metadata"]["name"] for each in clusters]
    if service["spec"].get("suspend"):
        if names or stable:
            yield f"{name} is suspended and has clusters {names} and {len(stable)} services"
        return
    active, pending = ((status.get(role) or {}).get("rayClusterName", "") for role in ROLES)
    if pending or names != [active]:
        yield f"{name} has clusters {names}, {active!r} active and {pending!r} pending"
        return
    for kind in ("head", "serve"):
        found = [each for each in stable if each["metadata"]["name"] == f"{name}-{kind}-svc"]
        if [selected(each) for each in found] != [active]:
            yield f"{name}-{kind}-svc does not lead to {active}"
    yield from _served(service, clusters[0], ray)


def _served(service: Object, cluster: Object, ray: WitnessedRay) -> Iterator[str]:
    """A cluster of another specification is kept, config and all, by the strategy `None` only."""
    wanted = service["spec"]["rayClusterConfig"]
    what = f"{service['metadata']['name']} on {cluster['metadata']['name']}"
    if _made_from(cluster["spec"]) != _made_from(wanted):
        if service["spec"]["upgradeStrategy"]["type"] != "None":
            yield f"{what} was made from {_made_from(cluster['spec'])}, not {_made_from(wanted)}"
        return
    replicas, asked = (_replicas(each) for each in (cluster["spec"], wanted))
    if replicas != asked and not wanted.get("enableInTreeAutoscaling"):
        yield f"{what} has {replicas} replicas, not {asked}"
    config = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"]
    for place, serve in ray.serves():
        if place[0] == cluster["metadata"]["uid"] and ray.has_head(place):
            served = [each.config for each in serve.applications.values()]
            if served != config or serve.capacity not in {None, 100}:
                yield f"{what} serves {served} at {serve.capacity}, not {config}"
            return
    yield f"{what} has no Serve"


def _made_from(spec: Object) -> list[Any]:
    """What of a specification of users here is never changed in place."""
    groups = (spec["headGroupSpec"], *spec.get("workerGroupSpecs", ()))
    images = [each["template"]["spec"]["containers"][0]["image"] for each in groups]
    return [*images, bool(spec.get("enableInTreeAutoscaling"))]


def _replicas(spec: Object) -> list[int]:
    return [each["replicas"] for each in spec.get("workerGroupSpecs", ())]


def _is_of_service(object_: Object) -> bool:
    references = object_["metadata"].get("ownerReferences", ())
    return any(each["kind"] == "RayService" for each in references)

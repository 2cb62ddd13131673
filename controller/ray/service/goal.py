"""Reads the user's goal from a RayService."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import dig, parse
from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.fields.serve_config import read_serve_config
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.api.validation.service import INVALID_SPEC_REASON, validate_service
from controller.ray.head.endpoint import serve_ports, template_ports
from controller.ray.head.stable_service import stable_head_service_name
from controller.ray.service.cluster_identity import Origin, SpecIdentity
from controller.ray.service.observation import ServiceGoal
from controller.ray.service.stored_config import ConfigTooLarge, store

if TYPE_CHECKING:
    from controller.ray.api.rayservice import RayService, RayServiceSpec
    from controller.ray.service.settings import ServiceSettings


def read_goal(service: RayService, settings: ServiceSettings) -> ServiceGoal | Problem:
    """Return the user's goal, or the first problem of the specification."""
    spec = validate_service(service, settings.feature_gates)
    if isinstance(spec, Problem):
        return spec
    if not _has_port(spec):
        return Problem(
            "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].ports",
            "has no port named `serve` or `serve-...`, so that no request could reach the "
            "applications; add one, such as 8000, or give the ports in spec.serveService",
            INVALID_SPEC_REASON,
        )
    head_service = stable_head_service_name(service.metadata)
    if dig(spec.serve_service, "metadata", "name") == head_service:
        return Problem(
            "spec.serveService.metadata.name",
            f"is {head_service}, the name of the service of the head; choose another one",
            INVALID_SPEC_REASON,
        )
    config = read_serve_config(spec.serve_config)
    try:
        stored = store(config.body)
    except ConfigTooLarge as error:
        return Problem("spec.serveConfigV2", str(error), INVALID_SPEC_REASON)
    identity = SpecIdentity.of(spec.ray_cluster_config)
    stamps = {
        labels.SPEC_HASH: str(identity),
        labels.NUM_WORKER_GROUPS: str(len(identity.groups)),
        labels.KUBERAY_VERSION: settings.version,
    }
    origin = Origin(identity, service.metadata.generation)
    return ServiceGoal(spec, identity, config, {labels.MADE_FROM: str(origin)} | stored, stamps)


def _has_port(spec: RayServiceSpec) -> bool:
    """Return whether the stable service of the applications has a port."""
    if dig(spec.serve_service, "spec", "ports"):
        return True
    return bool(serve_ports(template_ports(parse(spec.ray_cluster_config, ClusterSpec))))

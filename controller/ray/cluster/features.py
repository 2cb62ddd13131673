"""What a RayCluster may ask for and this version of Manta does not do yet.

Such fields are accepted, and named in a condition: nothing is left out in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec, RayCluster


def unsupported_fields(cluster: RayCluster, spec: ClusterSpec) -> tuple[str, ...]:
    """Paths of the fields that have no effect, in the order of the specification."""
    annotations = cluster.metadata.annotations or {}
    head, auth = spec.head_group_spec, spec.auth_options
    storage_asked = spec.gcs_fault_tolerance_options is not None
    asked = {
        "metadata.annotations[ray.io/ft-enabled]": (
            annotations.get(labels.FT_ENABLED, "").lower() == "true"
        ),
        "metadata.annotations[ray.io/enable-serve-service]": (
            annotations.get(labels.ENABLE_SERVE_SERVICE) == "true"
        ),
        "spec.authOptions": auth is not None and auth.mode != "disabled",
        "spec.gcsFaultToleranceOptions": storage_asked,
        "spec.historyServerOptions": spec.history_server_options is not None,
        "spec.networkPolicy": spec.network_policy is not None,
        "spec.tlsOptions": spec.tls_options is not None and bool(spec.tls_options.enabled),
        "spec.headGroupSpec.enableIngress": bool(head.enable_ingress),
    }
    return tuple(path for path, is_asked in asked.items() if is_asked)

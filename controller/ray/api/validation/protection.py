"""Refuses protection that a RayCluster asks for and this version does not implement.

Such a cluster would run and look ready but be unprotected. No feature gate changes that. Other
fields without effect are accepted and named in a condition, because safety does not depend on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.validation.context import ValidationContext

_AUTH_MODES: Final = frozenset({"", "token", "disabled"})


def unbuilt_protection(context: ValidationContext) -> Iterator[Problem]:
    """Yield a problem for each field that asks for protection the cluster would not have."""
    spec = context.spec
    if spec.network_policy is not None:
        yield Problem(
            "spec.networkPolicy",
            "is not supported yet, and the cluster would be open to every pod; remove it, and "
            "apply a NetworkPolicy of your own that selects the pods by their label ray.io/cluster",
        )
    if spec.tls_options is not None and spec.tls_options.wanted:
        yield Problem(
            "spec.tlsOptions",
            "is not supported yet, and Ray would send everything in clear text; remove it, and "
            "mount certificates of your own in the pod templates, with RAY_USE_TLS=1, "
            "RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT",
        )
    auth = spec.auth_options
    if auth is not None and auth.mode not in _AUTH_MODES:
        yield Problem(
            "spec.authOptions.mode",
            f"{auth.mode!r} is not supported, and Ray would need no authentication; it must be "
            "token or disabled",
        )

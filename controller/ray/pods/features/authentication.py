"""Token authentication of requests to Ray: variables and volumes of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.api.token import TOKEN_KEY, token_secret_name
from controller.ray.pods.environment import Environment
from controller.ray.pods.features.volumes import add_mount, add_volume, volume_name

if TYPE_CHECKING:
    from controller.ray.api.raycluster import AuthOptions
    from controller.ray.pods.draft import PodDraft

Body = dict[str, Any]

WAIT_CONTAINER: Final = "wait-gcs-ready"

_TOKEN: Final[Body] = {
    "name": "ray-token",
    "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]},
}
_TOKEN_PATH: Final = "/var/run/secrets/ray.io/serviceaccount"  # noqa: S105 - a path


def add_token(draft: PodDraft, cluster_name: str, auth: AuthOptions | None) -> None:
    """Give the token to the Ray container and to the container that waits for the GCS."""
    if auth is None or not auth.by_token:
        return
    add_token_variables(draft.env, cluster_name, auth)
    if auth.by_kubernetes:
        add_volume(draft.spec, _TOKEN, _TOKEN_PATH)
        _mount_token(draft.spec, draft.ray)
    for container in draft.spec.get("initContainers", ()):
        if container.get("name") == WAIT_CONTAINER:
            add_token_to_container(draft.spec, container, cluster_name, auth)


def add_token_to_container(
    pod_spec: Body, container: Body, cluster_name: str, auth: AuthOptions | None
) -> None:
    """Give the token to a sidecar of a Ray pod, which has the volume, or gets it later."""
    if auth is None or not auth.by_token:
        return
    env = Environment(container.get("env", ()))
    add_token_variables(env, cluster_name, auth)
    container["env"] = env.as_list()
    if auth.by_kubernetes:
        _mount_token(pod_spec, container)


def add_token_to_pod(
    pod_spec: Body, container: Body, cluster_name: str, auth: AuthOptions | None
) -> None:
    """Give the token to a container of a pod outside the cluster."""
    if auth is not None and auth.by_kubernetes:
        add_volume(pod_spec, _TOKEN, _TOKEN_PATH)
    add_token_to_container(pod_spec, container, cluster_name, auth)


def add_token_variables(env: Environment, cluster_name: str, auth: AuthOptions) -> None:
    """Add the variables that configure Ray's token authentication."""
    env.default("RAY_AUTH_MODE", "token")
    if auth.by_kubernetes:
        env.default("RAY_ENABLE_K8S_TOKEN_AUTH", "true")
        return
    secret = {"name": token_secret_name(cluster_name, auth), "key": TOKEN_KEY}
    env.default_entry({"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": secret}})


def _mount_token(pod_spec: Body, container: Body) -> None:
    name = volume_name(pod_spec, _TOKEN, _TOKEN_PATH)
    add_mount(container, {"name": name, "mountPath": _TOKEN_PATH, "readOnly": True})

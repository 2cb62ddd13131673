"""What features add to the pods of Ray: volumes, tokens, the autoscaler, probes."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.template import plain_path
from controller.ray.api import labels
from controller.ray.api.lifetime_options import grace_of
from controller.ray.api.names import AGENT_PORT, AUTOSCALER, DASHBOARD_PORT
from controller.ray.api.ray_options import HTTP_PROBES_SINCE, is_at_least
from controller.ray.api.raycluster import (
    TOKEN_KEY,
    AuthOptions,
    ClusterSpec,
    GracefulTerminationOptions,
    token_secret_name,
)
from controller.ray.head import Identity
from controller.ray.pods.environment import Environment, PodDraft, Role, port_of
from controller.ray.pods.tls import add_certificates_to_container

# Volumes of Ray pods: shared memory and scratch space.

Body = dict[str, Any]

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - Ray's own place
_SCRATCH: Final = "/tmp/ray"  # noqa: S108 - Ray's own place


def volume_name(pod_spec: Body, volume: Body, path: str) -> str:
    """Return the name of a volume for that path: its own, or another if something else has that.

    A user's volume of its name and kind is taken for it, so that users can choose its size, unless
    the Ray container mounts it elsewhere.
    """
    own: str = volume["name"]
    present = {each.get("name"): each for each in pod_spec.get("volumes", ())}
    names = itertools.chain((own,), (f"{own}-{number}" for number in itertools.count(1)))
    return next(
        name
        for name in names
        if name not in present or _serves(pod_spec, present[name], volume, path)
    )


def add_volume(pod_spec: Body, volume: Body, path: str) -> str:
    """Add a volume unless it is there; return its name, by which it is to be mounted."""
    name = volume_name(pod_spec, volume, path)
    volumes: list[Body] = pod_spec.setdefault("volumes", [])
    if all(each.get("name") != name for each in volumes):
        volumes.append(copy.deepcopy(volume) | {"name": name})
    return name


def add_mount(container: Body, mount: Body) -> None:
    """Mount a volume in a container unless something is mounted there."""
    if mount_at(container, mount["mountPath"]) is None:
        container.setdefault("volumeMounts", []).append(mount)


def mount_at(container: Body, path: str) -> Body | None:
    """Return what a container mounts at exactly this path, in whatever notation."""
    mounts: Iterable[Body] = container.get("volumeMounts", ())
    found = (each for each in mounts if plain_path(each.get("mountPath", "")) == plain_path(path))
    return next(found, None)


def add_shared_memory(draft: PodDraft) -> None:
    """Mount memory for Ray's object store at `/dev/shm`, as large as the container's memory.

    Does nothing if the user has set another plasma directory or mounts a volume there.
    """
    ray = draft.ray
    directory = draft.parameters.get("plasma-directory", _SHARED_MEMORY)
    if plain_path(directory) != _SHARED_MEMORY or mount_at(ray, _SHARED_MEMORY):
        return
    source: Body = {"medium": "Memory"}
    resources = ray.get("resources", {})
    for kind in ("limits", "requests"):
        if "memory" in resources.get(kind, {}):
            source["sizeLimit"] = resources[kind]["memory"]
            break
    memory = {"name": "shared-mem", "emptyDir": source}
    name = add_volume(draft.spec, memory, _SHARED_MEMORY)
    add_mount(ray, {"name": name, "mountPath": _SHARED_MEMORY})


def share_scratch_volume(draft: PodDraft, sidecar: Body) -> None:
    """Share `/tmp/ray`, where Ray's logs are, with a sidecar that reads or writes them.

    What the user mounts there is shared: in a volume of its own the sidecar would be alone.
    """
    mount = mount_at(draft.ray, _SCRATCH)
    if mount is None:
        name = add_volume(draft.spec, {"name": "ray-logs", "emptyDir": {}}, _SCRATCH)
        mount = {"name": name, "mountPath": _SCRATCH}
        add_mount(draft.ray, mount)
    add_mount(sidecar, dict(mount))


def _serves(pod_spec: Body, present: Body, volume: Body, path: str) -> bool:
    """Return whether a volume of the name is what is wanted at the path."""
    mounts = pod_spec["containers"][0].get("volumeMounts", ())
    at = {
        plain_path(each.get("mountPath", ""))
        for each in mounts
        if each.get("name") == present["name"]
    }
    if at:
        return plain_path(path) in at
    return _kind(present) == _kind(volume)


def _kind(volume: Body) -> tuple[set[str], str]:
    """Return the source of a volume, and the medium if it is a directory of the node."""
    return volume.keys() - {"name"}, str(dig(volume, "emptyDir", "medium") or "")


# Token authentication of requests to Ray: variables and volumes of containers.

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


# The sidecar of the head pod that runs Ray's autoscaler.
#
# The autoscaler reads the RayCluster, writes its `replicas` and `workersToDelete`, and watches the
# pods.

_COMMAND: Final = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
    "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)


def sidecar(identity: Identity, spec: ClusterSpec, pod_spec: Body) -> Body:
    """Return the autoscaler container for a head that is under construction."""
    container: Body = {
        "name": AUTOSCALER,
        "image": pod_spec["containers"][0].get("image", ""),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", "--"],
        "args": [_COMMAND],
        "env": [
            _from_field("RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']"),
            _from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            _from_field("RAY_HEAD_POD_NAME", "metadata.name"),
            {"name": "KUBERAY_CRD_VER", "value": "v1"},
            {"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": _COMMAND},
        ],
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
    }
    add_token_to_container(pod_spec, container, identity.name, spec.auth_options)
    if spec.has_mtls:
        add_certificates_to_container(container)
    _apply_options(container, spec)
    return container


def _apply_options(container: Body, spec: ClusterSpec) -> None:
    options = spec.autoscaler_options
    if options is None:
        return
    replaced = {
        "resources": options.resources,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "securityContext": options.security_context,
        "command": list(options.command),
        "args": list(options.args),
    }
    container |= {key: copy.deepcopy(value) for key, value in replaced.items() if value}
    appended = {
        "env": options.env,
        "envFrom": options.env_from,
        "volumeMounts": options.volume_mounts,
    }
    for key, entries in appended.items():
        if entries:
            container[key] = [*container.get(key, ()), *copy.deepcopy(entries)]


def _from_field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


# Graceful termination: the time that a pod has, and the hook that lets Ray drain a worker in it.
#
# A head has no hook: with its GCS all work of the cluster ends, and drained it could not even
# finish what its drivers ask for.

_MARGIN: Final = 5
"""Seconds of the grace period that are left for Ray's own end after the hook."""

_HOOK: Final = (
    "end=$(($(date +%s) + {seconds})); "
    "timeout -k 2 15 ray drain-node --reason DRAIN_NODE_REASON_PREEMPTION "
    "--reason-message 'its pod is being deleted' --deadline-remaining-seconds {seconds} || exit 0; "
    "while [ $(date +%s) -lt $end ] && grep -qsx raylet /proc/[0-9]*/comm; do sleep 1; done"
)
"""Ray gives a drained node no new work, and its raylet ends with the last of its work.

The container does not end with it. Where Ray cannot drain the node, such as after the head was
deleted with its cluster, nothing is waited for.
"""


def add_graceful_termination(draft: PodDraft, options: GracefulTerminationOptions | None) -> None:
    """Give the pod its grace period and a worker its hook, unless the template has its own."""
    if options is None:
        return
    grace = grace_of(draft.spec, options)
    draft.spec.setdefault("terminationGracePeriodSeconds", grace)
    lifecycle: Body = draft.ray.setdefault("lifecycle", {})
    if draft.role == "worker" and "preStop" not in lifecycle:
        wait = min(options.drain_deadline_seconds or grace, max(1, grace - _MARGIN))
        command = ["/bin/sh", "-c", _HOOK.format(seconds=wait)]
        lifecycle["preStop"] = {"exec": {"command": command}}
    if not lifecycle:
        del draft.ray["lifecycle"]


# Liveness and readiness probes of Ray containers, by role and Ray version.

Probe = dict[str, Any]

_SERVE_PORT: Final = 8000
_TIMEOUT: Final[Mapping[Role, int]] = {"head": 5, "worker": 2}
_LIVENESS_FAILURES: Final = 120
_READINESS_FAILURES: Final = 10


def add_probes(draft: PodDraft, *, ray_version: str, serving: bool) -> None:
    """Add the probes that the user has not defined to the Ray container.

    Args:
        draft: changed in place.
        ray_version: selects HTTP probes or `wget`.
        serving: whether the cluster belongs to a RayService, whose workers are ready only when
            their Serve proxy is.
    """
    role, container, parameters = draft.role, draft.ray, draft.parameters
    liveness = _liveness_check(role, parameters, ray_version)
    readiness, failures = liveness, _READINESS_FAILURES
    if serving and role == "worker":
        readiness, failures = _exec([_raylet(parameters), _serve_proxy(container)]), 1
    if "livenessProbe" not in container:
        container["livenessProbe"] = _probe(liveness, role, 30, _LIVENESS_FAILURES)
    if "readinessProbe" not in container:
        container["readinessProbe"] = _probe(readiness, role, 10, failures)


def _probe(check: Probe, role: Role, initial_delay: int, failures: int) -> Probe:
    return {
        **check,
        "initialDelaySeconds": initial_delay,
        "timeoutSeconds": _TIMEOUT[role],
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _liveness_check(role: Role, parameters: Mapping[str, str], ray_version: str) -> Probe:
    if is_at_least(ray_version, HTTP_PROBES_SINCE):
        return {"httpGet": {"path": "/api/healthz", "port": _agent_port(parameters)}}
    checks = [_raylet(parameters)]
    if role == "head":
        port = port_of(parameters, "dashboard-port", DASHBOARD_PORT)
        checks.append(_wget(port, "api/gcs_healthz", timeout=10))
    return _exec(checks)


def _agent_port(parameters: Mapping[str, str]) -> int:
    return port_of(parameters, "dashboard-agent-listen-port", AGENT_PORT)


def _raylet(parameters: Mapping[str, str]) -> str:
    return _wget(_agent_port(parameters), "api/local_raylet_healthz", timeout=2)


def _serve_proxy(container: Mapping[str, Any]) -> str:
    ports = {port.get("name"): port["containerPort"] for port in container.get("ports", ())}
    return _wget(ports.get("serve", _SERVE_PORT), "-/healthz", timeout=10)


def _wget(port: int, path: str, *, timeout: int) -> str:
    url = f"http://localhost:{port}/{path}"
    return f"wget --tries 1 -T {timeout} -q -O- {url} | grep success"


def _exec(checks: list[str]) -> Probe:
    return {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}


# Adds the init container in which a worker waits until the GCS answers.

_WAIT_SCRIPT: Final = """\
until if ((SECONDS < 120)); then ray health-check --address {address} > /dev/null 2>&1; \
else ray health-check --address {address}; fi; do
  echo "$SECONDS seconds: the GCS at {address} does not answer yet."
  sleep 5
done
echo "The GCS at {address} is ready."
"""


def add_wait_gcs_ready(draft: PodDraft, address: str) -> None:
    """Make a pod wait for the GCS at `host:port`, unless the user has defined the container.

    A container of that name without an image has what the user changes of ours, such as resources.
    Call it before other features change the Ray container, from which it copies fields.
    """
    containers: list[Body] = draft.spec.setdefault("initContainers", [])
    for container in containers:
        if container.get("name") == WAIT_CONTAINER:
            if not container.get("image"):
                container.update(_wait_for_head(draft.ray, address) | container)
            return
    containers.append(_wait_for_head(draft.ray, address))


def _wait_for_head(ray: Body, address: str) -> Body:
    container: Body = {
        "name": WAIT_CONTAINER,
        "image": ray.get("image", ""),
        "command": ["/bin/bash", "-c", "--"],
        "args": [_WAIT_SCRIPT.format(address=address)],
        "resources": {
            "requests": {"cpu": "200m", "memory": "256Mi"},
            "limits": {"cpu": "200m", "memory": "256Mi"},
        },
    }
    for key in ("imagePullPolicy", "securityContext", "env", "volumeMounts"):
        if key in ray:
            container[key] = copy.deepcopy(ray[key])
    return container

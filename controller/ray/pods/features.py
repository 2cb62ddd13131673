"""What features add to the pods of Ray: volumes, tokens, grace periods, probes, certificates."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.validation import plain_path
from controller.kube.objects import Pod
from controller.ray.api.lifetime_options import grace_of
from controller.ray.api.names import (
    AGENT_PORT,
    DASHBOARD_PORT,
    TLS_DIRECTORY,
    TLS_VARIABLES,
    TLS_VOLUME,
)
from controller.ray.api.ray_options import HTTP_PROBES_SINCE, is_at_least
from controller.ray.api.raycluster import (
    TOKEN_KEY,
    AuthOptions,
    GracefulTerminationOptions,
    token_secret_name,
)
from controller.ray.pods.environment import Environment, PodDraft, Role, port_of

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


# mTLS in the pods: who has the certificate, and the wait for one that names the pod's address.
#
# Ray reads the files once, when a process starts, and verifies the address that it connects to.
# The address of a pod is known when its volumes are mounted, so that a container waits until the
# kubelet has brought a certificate with it.

WAIT_FOR_CERTIFICATE: Final = "wait-for-tls-ip-san"
"""Name of the init container, KubeRay's; a pod that has it uses the certificates."""

_SIZE: Final = {"cpu": "50m", "memory": "64Mi"}
_SCRIPT: Final = f"""\
command -v openssl > /dev/null || {{ echo "mTLS needs openssl in this image" >&2; exit 1; }}
until openssl x509 -in {TLS_DIRECTORY}/tls.crt -noout -checkip "$POD_IP" 2> /dev/null \
| grep -q 'does match'; do
  echo "Waiting for a certificate with $POD_IP; the kubelet may take a minute to bring it."
  sleep 2
done
echo "The certificate names $POD_IP."
"""


def certificate_secret(cluster: str, role: Role) -> str:
    """Return the name of the Secret that pods of a role mount."""
    return f"ray-{role}-secret-{cluster}"


def add_certificates(draft: PodDraft, cluster: str, *callers: str) -> None:
    """Give the certificate of its role to Ray, and let the pod wait until it names the pod.

    `callers` are the names of the init containers that call the head.
    """
    secret = {"secretName": certificate_secret(cluster, draft.role)}
    draft.spec.setdefault("volumes", []).append({"name": TLS_VOLUME, "secret": secret})
    for name, value in TLS_VARIABLES.items():
        draft.env.default(name, value)
    _mount_in(draft.ray)
    containers: list[Body] = draft.spec.setdefault("initContainers", [])
    for container in containers:
        if container.get("name") in callers:
            add_certificates_to_container(container)
    if all(each.get("name") != WAIT_FOR_CERTIFICATE for each in containers):
        containers.insert(0, _wait_for_certificate(draft.ray))


def add_certificates_to_container(container: Body) -> None:
    """Give the certificate to a sidecar of a Ray pod, which has the volume, or gets it later."""
    env = Environment(container.get("env", ()))
    for name, value in TLS_VARIABLES.items():
        env.default(name, value)
    container["env"] = env.as_list()
    _mount_in(container)


def uses_certificates(pod: Pod) -> bool:
    """Return whether the pod mounts a certificate of its cluster."""
    return any(each.name == WAIT_FOR_CERTIFICATE for each in pod.spec.init_containers)


def _mount_in(container: Body) -> None:
    mounts: list[Body] = container.setdefault("volumeMounts", [])
    if all(each.get("name") != TLS_VOLUME for each in mounts):
        mounts.append(_mount())


def _mount() -> Body:
    return {"name": TLS_VOLUME, "mountPath": TLS_DIRECTORY, "readOnly": True}


def _wait_for_certificate(ray: Body) -> Body:
    container: Body = {
        "name": WAIT_FOR_CERTIFICATE,
        "image": ray.get("image", ""),
        "command": ["sh", "-c"],
        "args": [_SCRIPT],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "volumeMounts": [_mount()],
        "resources": {"limits": dict(_SIZE), "requests": dict(_SIZE)},
    }
    for key in ("imagePullPolicy", "securityContext"):
        if key in ray:
            container[key] = copy.deepcopy(ray[key])
    return container

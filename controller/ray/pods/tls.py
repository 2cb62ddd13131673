"""mTLS in the pods: who has the certificate, and the wait for one that names the pod's address.

Ray reads the files once, when a process starts, and verifies the address that it connects to. The
address of a pod is known when its volumes are mounted, so that a container waits until the kubelet
has brought a certificate with it.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from controller.kube.objects import Pod
from controller.ray.api.names import TLS_DIRECTORY, TLS_VARIABLES, TLS_VOLUME
from controller.ray.pods.environment import Environment, PodDraft, Role

Body = dict[str, Any]

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

"""The containers' access to the API server: a folder with a token, and variables.

As in Kubernetes, except that the kubelet adds the folder, not the API server, so that it is not in
the specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from controller.devcluster.processes.specification import (
    DownwardFile,
    DownwardSource,
    FieldReference,
    ProjectedSource,
    Projection,
    TokenSource,
    TrustBundleSource,
    Volume,
    VolumeMount,
)

if TYPE_CHECKING:
    from controller.devcluster.processes.specification import ContainerSpecification, SpecifiedPod

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAMESPACE = DownwardFile(
    path="namespace", field_ref=FieldReference(field_path="metadata.namespace")
)
_VOLUME = Volume(
    name="kube-api-access",
    projected=ProjectedSource(
        sources=(
            Projection(service_account_token=TokenSource()),
            Projection(cluster_trust_bundle=TrustBundleSource(path="ca.crt")),
            Projection(downward_api=DownwardSource(items=(_NAMESPACE,))),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """The API server in the view of pods.

    Attributes:
        host: address of the server.
        port: TCP port of the server.
        authority: PEM certificate that signs the server's.
    """

    host: str
    port: int
    authority: bytes

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of every container, as the service `kubernetes` gives them."""
        port = str(self.port)
        address = f"tcp://{self.host}:{port}"
        return {
            "KUBERNETES_SERVICE_HOST": self.host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
            "KUBERNETES_PORT": address,
            f"KUBERNETES_PORT_{port}_TCP": address,
            f"KUBERNETES_PORT_{port}_TCP_ADDR": self.host,
            f"KUBERNETES_PORT_{port}_TCP_PORT": port,
            f"KUBERNETES_PORT_{port}_TCP_PROTO": "tcp",
        }


def with_service_account(pod: SpecifiedPod) -> SpecifiedPod:
    """Return the pod with its service account's folder mounted in each container.

    Containers with another mount there keep it, as does a pod with `automountServiceAccountToken:
    false`.
    """
    if pod.spec.automount_service_account_token is False:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        volumes=(*pod.spec.volumes, _VOLUME),
        init_containers=tuple(map(_mounted, pod.spec.init_containers)),
        containers=tuple(map(_mounted, pod.spec.containers)),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _mounted(container: ContainerSpecification) -> ContainerSpecification:
    if any(mount.mount_path.rstrip("/") == FOLDER for mount in container.volume_mounts):
        return container
    mount = VolumeMount(name=_VOLUME.name, mount_path=FOLDER, read_only=True)
    return msgspec.structs.replace(container, volume_mounts=(*container.volume_mounts, mount))

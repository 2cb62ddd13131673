"""A container's environment and command line, with expansion and the downward API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.devcluster.processes.images import Image
from controller.devcluster.processes.specification import (
    ContainerSpecification,
    DownwardFile,
    DownwardSource,
    EnvFrom,
    EnvVar,
    FieldReference,
    ObjectKey,
    ProjectedSource,
    Projection,
    ResourceReference,
    SpecifiedPod,
    TokenSource,
    TrustBundleSource,
    Volume,
    VolumeMount,
)

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with its references replaced; `$$` is a dollar, unknown names stay."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(value, text)


_ENTRY = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class UnsupportedFieldReference(Exception):  # noqa: N818  it is about the pod, not about this program
    """A reference names a field, container or resource that does not exist."""


class DownwardValues(msgspec.Struct, frozen=True):
    """Values that the machine adds to a pod's fields.

    Attributes:
        cpus: processors of the node, for containers without a limit.
        memory: bytes of memory of the node, for containers without a limit.
    """

    pod_ip: str
    host_ip: str
    cpus: int
    memory: int


def field_value(reference: FieldReference, pod: SpecifiedPod, downward: DownwardValues) -> str:
    """Return the value of a `fieldRef`.

    Raises:
        UnsupportedFieldReference: there is no such field.
    """
    path, meta = reference.field_path, pod.metadata
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
        amount = parse_quantity(whole.get(resource, "0") if given is None else given)
        divisor = parse_quantity(reference.divisor) or parse_quantity(1)
    except InvalidQuantity as error:
        raise UnsupportedFieldReference(
            f"{reference.resource} of container {container.name}: {error}"
        ) from error
    return str(-(-amount.nanos // divisor.nanos))


def _listed(entries: Mapping[str, str] | None) -> str:
    lines = (
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in sorted((entries or {}).items())
    )
    return "\n".join(lines)


class InvalidConfiguration(Exception):  # noqa: N818  Kubernetes calls it CreateContainerConfigError
    """An object that the container refers to does not exist (yet). The message names it."""


class SourceReference(msgspec.Struct, frozen=True):
    """Names a config map, a secret or a claim of the pod's namespace."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return `configmap "x"`, for messages."""
        return f'{self.kind} "{self.name}"'


CONFIG_MAP, SECRET, CLAIM = "configmap", "secret", "persistentvolumeclaim"
ACCOUNT, AUTHORITY = "serviceaccount", "authority"
Contents = Mapping[SourceReference, Mapping[str, bytes] | None]
"""The data of objects; None for those that do not exist."""


class AccountToken(SourceReference, frozen=True):
    """A token of a service account, bound to a pod.

    Attributes:
        audience: audience of the token; empty for the API server.
    """

    pod: str
    uid: str
    audience: str


def env_sources(container: ContainerSpecification) -> frozenset[SourceReference]:
    """Return the objects that `invocation` needs."""
    found: set[SourceReference] = set()
    for group in container.env_from:
        if group.config_map_ref:
            found.add(SourceReference(CONFIG_MAP, group.config_map_ref.name))
        if group.secret_ref:
            found.add(SourceReference(SECRET, group.secret_ref.name))
    for variable in container.env:
        origin = variable.value_from
        if origin and origin.config_map_key_ref:
            found.add(SourceReference(CONFIG_MAP, origin.config_map_key_ref.name))
        if origin and origin.secret_key_ref:
            found.add(SourceReference(SECRET, origin.secret_key_ref.name))
    return frozenset(found)


class Invocation(msgspec.Struct, frozen=True):
    """The start of a container: command, environment, directory.

    Attributes:
        cwd: working directory, empty for that of the image.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str


def invocation(
    pod: SpecifiedPod,
    container: ContainerSpecification,
    image: Image,
    *,
    downward: DownwardValues,
    sources: Contents,
    given: Mapping[str, str],
) -> Invocation:
    """Compute how `container` is started.

    Raises:
        InvalidConfiguration: a referenced object is missing, or there is no command.
    """
    declared: dict[str, str] = dict(given)
    for group in container.env_from:
        declared.update(_taken_over(group, sources))
    for variable in container.env:
        value = _value(variable, declared, pod, container, downward=downward, sources=sources)
        if value is not None:
            declared[variable.name] = value
    command = tuple(expand(word, declared) for word in container.command)
    args = tuple(expand(word, declared) for word in container.args)
    if not container.command and not container.args:
        args = image.command
    if not command + args:
        raise InvalidConfiguration("no command specified")
    hostname = pod.spec.hostname or pod.metadata.name
    env = {**image.variables, "HOSTNAME": hostname, **declared}
    return Invocation(command + args, env, expand(container.working_dir, declared))


def _taken_over(group: EnvFrom, sources: Contents) -> Iterator[tuple[str, str]]:
    for kind, reference in ((CONFIG_MAP, group.config_map_ref), (SECRET, group.secret_ref)):
        if reference is None:
            continue
        data = sources[SourceReference(kind, reference.name)]
        if data is None and not reference.optional:
            raise InvalidConfiguration(f"{SourceReference(kind, reference.name)} not found")
        for key, value in sorted((data or {}).items()):
            if "=" not in key:
                yield group.prefix + key, _text(value)


def _value(
    variable: EnvVar,
    declared: Mapping[str, str],
    pod: SpecifiedPod,
    container: ContainerSpecification,
    *,
    downward: DownwardValues,
    sources: Contents,
) -> str | None:
    """Return the value of one variable, None if it is optional and missing."""
    origin = variable.value_from
    if origin is None:
        return expand(variable.value, declared)
    try:
        if origin.field_ref:
            return field_value(origin.field_ref, pod, downward)
        if origin.resource_field_ref:
            return resource_value(origin.resource_field_ref, pod, container, downward)
    except UnsupportedFieldReference as error:
        raise InvalidConfiguration(f"env {variable.name}: {error}") from error
    if origin.config_map_key_ref:
        return _keyed(CONFIG_MAP, origin.config_map_key_ref, pod, sources)
    if origin.secret_key_ref:
        return _keyed(SECRET, origin.secret_key_ref, pod, sources)
    raise InvalidConfiguration(f"env {variable.name}: valueFrom names no source that is known here")


def _keyed(kind: str, wanted: ObjectKey, pod: SpecifiedPod, sources: Contents) -> str | None:
    source = SourceReference(kind, wanted.name)
    data = sources[source]
    if data is not None and wanted.key in data:
        return _text(data[wanted.key])
    if wanted.optional:
        return None
    if data is None:
        raise InvalidConfiguration(f"{source} not found")
    kind_name = "ConfigMap" if kind == CONFIG_MAP else "Secret"
    where = f"{kind_name} {pod.metadata.namespace}/{wanted.name}"
    raise InvalidConfiguration(f"couldn't find key {wanted.key} in {where}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape").replace("\0", "")


# The containers' access to the API server: a folder with a token, and variables.
#
# As in Kubernetes, except that the kubelet adds the folder, not the API server, so that it is not
# in the specification.


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


class ApiAccess(msgspec.Struct, frozen=True):
    """The API server in the view of pods.

    Attributes:
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

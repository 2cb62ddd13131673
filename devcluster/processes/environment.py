"""The start of a container: its image, environment and command line, and the downward API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from devcluster.processes.specification import (
    ContainerSpecification,
    Json,
    SpecifiedPod,
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


def field_value(reference: Json, pod: SpecifiedPod, downward: DownwardValues) -> str:
    """Return the value of a `fieldRef`.

    Raises:
        UnsupportedFieldReference: there is no such field.
    """
    path, meta = str(reference.get("fieldPath", "")), pod.metadata
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
    reference: Json,
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
    name, wanted = reference.get("containerName", ""), str(reference.get("resource", ""))
    if name:
        container = next((each for each in pod.spec.all_containers if each.name == name), None)
    if container is None:
        raise UnsupportedFieldReference(f"no container {name!r} in the pod")
    group, _, resource = wanted.partition(".")
    if group not in {"limits", "requests"} or not resource:
        raise UnsupportedFieldReference(f"unsupported container resource: {wanted}")
    limits, requests = container.resources.limits, container.resources.requests
    given = limits.get(resource) if group == "limits" else requests.get(resource)
    whole = {"cpu": str(downward.cpus), "memory": str(downward.memory)} if group == "limits" else {}
    try:
        amount = parse_quantity(whole.get(resource, "0") if given is None else given)
        divisor = parse_quantity(reference.get("divisor", "1")) or parse_quantity(1)
    except InvalidQuantity as error:
        why = f"{wanted} of container {container.name}: {error}"
        raise UnsupportedFieldReference(why) from error
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


_WHOLE = {"configMapRef": CONFIG_MAP, "secretRef": SECRET}
"""Kinds of objects by the members of `envFrom[]` that name them."""
_KEYED = {"configMapKeyRef": CONFIG_MAP, "secretKeyRef": SECRET}
"""Kinds of objects by the members of `env[].valueFrom` that name a key of theirs."""


def env_sources(container: ContainerSpecification) -> frozenset[SourceReference]:
    """Return the objects that `invocation` needs."""
    kinds = _WHOLE | _KEYED
    origins: list[Json] = [variable.get("valueFrom") or {} for variable in container.env]
    return frozenset(
        SourceReference(kinds[member], reference.get("name", ""))
        for entry in (*container.env_from, *origins)
        for member, reference in entry.items()
        if member in kinds
    )


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
            declared[variable["name"]] = value
    command = tuple(expand(word, declared) for word in container.command)
    args = tuple(expand(word, declared) for word in container.args)
    if not container.command and not container.args:
        args = image.command
    if not command + args:
        raise InvalidConfiguration("no command specified")
    hostname = pod.spec.hostname or pod.metadata.name
    env = {**image.variables, "HOSTNAME": hostname, **declared}
    return Invocation(command + args, env, expand(container.working_dir, declared))


def _taken_over(group: Json, sources: Contents) -> Iterator[tuple[str, str]]:
    for member, kind in _WHOLE.items():
        reference: Json | None = group.get(member)
        if reference is None:
            continue
        source = SourceReference(kind, reference.get("name", ""))
        data = sources[source]
        if data is None and not reference.get("optional"):
            raise InvalidConfiguration(f"{source} not found")
        for key, value in sorted((data or {}).items()):
            if "=" not in key:
                yield group.get("prefix", "") + key, _text(value)


def _value(
    variable: Json,
    declared: Mapping[str, str],
    pod: SpecifiedPod,
    container: ContainerSpecification,
    *,
    downward: DownwardValues,
    sources: Contents,
) -> str | None:
    """Return the value of one variable, None if it is optional and missing."""
    name, origin = variable["name"], variable.get("valueFrom")
    if origin is None:
        return expand(variable.get("value", ""), declared)
    try:
        if "fieldRef" in origin:
            return field_value(origin["fieldRef"], pod, downward)
        if "resourceFieldRef" in origin:
            return resource_value(origin["resourceFieldRef"], pod, container, downward)
    except UnsupportedFieldReference as error:
        raise InvalidConfiguration(f"env {name}: {error}") from error
    for member, kind in _KEYED.items():
        if member in origin:
            return _keyed(kind, origin[member], pod, sources)
    raise InvalidConfiguration(f"env {name}: valueFrom names no source that is known here")


def _keyed(kind: str, wanted: Json, pod: SpecifiedPod, sources: Contents) -> str | None:
    source, key = SourceReference(kind, wanted.get("name", "")), wanted.get("key", "")
    data = sources[source]
    if data is not None and key in data:
        return _text(data[key])
    if wanted.get("optional"):
        return None
    if data is None:
        raise InvalidConfiguration(f"{source} not found")
    kind_name = "ConfigMap" if kind == CONFIG_MAP else "Secret"
    where = f"{kind_name} {pod.metadata.namespace}/{source.name}"
    raise InvalidConfiguration(f"couldn't find key {key} in {where}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape").replace("\0", "")


# The containers' access to the API server: a folder with a token, and variables.
#
# As in Kubernetes, except that the kubelet adds the folder, not the API server, so that it is not
# in the specification.


FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_NAMESPACE: Json = {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}
_VOLUME: Json = {
    "name": "kube-api-access",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"clusterTrustBundle": {"path": "ca.crt"}},
            {"downwardAPI": {"items": [_NAMESPACE]}},
        ]
    },
}


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
    if any(mount["mountPath"].rstrip("/") == FOLDER for mount in container.volume_mounts):
        return container
    mount: Json = {"name": _VOLUME["name"], "mountPath": FOLDER, "readOnly": True}
    return msgspec.structs.replace(container, volume_mounts=(*container.volume_mounts, mount))


# Images: names of container images, and the local environments that stand for them.
#
# There are no container images on this machine. `--image NAME=PATH` makes containers of image
# NAME use the programs in PATH, the folder of a Python environment; everything else they share
# with the machine.


SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Image(Struct, frozen=True):
    """A local environment used in place of an image.

    Attributes:
        command: its arguments when a container has neither command nor arguments.
    """

    path: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    command: tuple[str, ...] = ("python3",)

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which a container's environment begins."""
        programs = self.path / "bin"
        return {
            "PATH": f"{programs}:{SYSTEM_PATH}",
            "VIRTUAL_ENV": str(self.path),
            "HOME": "/tmp",  # noqa: S108  a container has its own
            "LANG": "C.UTF-8",
            **self.env,
        }


class UnknownImage(Exception):  # noqa: N818  the kubelet's words for it are ErrImagePull
    """There is no environment for an image. The message names the remedy."""


class Images:
    """Finds the environment of an image by its name.

    Args:
        known: by name, as in `--image NAME=PATH`: with or without registry, tag or digest. A name
            without a tag stands for every tag.
    """

    def __init__(self, known: Mapping[str, Image]) -> None:
        self._known = dict(known)

    def add(self, name: str, image: Image) -> None:
        """Make an environment stand for an image, unless one does already."""
        self._known.setdefault(name, image)

    def find(self, image: str) -> Image:
        """Return the environment for `image`.

        Raises:
            UnknownImage: there is none.
        """
        for name in _names(image):
            if name in self._known:
                return self._known[name]
        repository = _names(image)[-1]
        raise UnknownImage(
            f'no environment stands for image "{image}" on this machine; start again with '
            f"--image {repository}=PATH, the folder of a Python environment"
        )


def _names(image: str) -> list[str]:
    """Return all names of `image`, the most exact one first."""
    bare = image.partition("@")[0]
    head, slash, last = bare.rpartition("/")
    repository = head + slash + last.partition(":")[0]
    names = [image, bare, repository]
    first, slash, rest = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        names.append(rest)
        names.append(rest.removeprefix("library/"))
    return list(dict.fromkeys(names))

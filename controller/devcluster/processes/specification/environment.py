"""A container's environment and command line, from its specification alone.

Nothing is inherited from this process. Order of precedence, as in a real cluster: the image's
variables, those of the API server, `envFrom`, `env`; the latter may refer to earlier ones of the
pod. Other services have no variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.processes.specification.downward_api import (
    UnsupportedFieldReference,
    field_value,
    resource_value,
)
from controller.devcluster.processes.specification.expansion import expand

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.devcluster.processes.specification.downward_api import DownwardValues
    from controller.devcluster.processes.specification.images import Image
    from controller.devcluster.processes.specification.specification import (
        ContainerSpecification,
        EnvFrom,
        EnvVar,
        ObjectKey,
        SpecifiedPod,
    )


class InvalidConfiguration(Exception):  # noqa: N818  Kubernetes calls it CreateContainerConfigError
    """An object that the container refers to does not exist (yet). The message names it."""


@dataclass(frozen=True, slots=True)
class SourceReference:
    """Names a config map, a secret or a claim of the pod's namespace."""

    kind: str
    name: str

    def __str__(self) -> str:
        """Return `configmap "x"`, for messages."""
        return f'{self.kind} "{self.name}"'


CONFIG_MAP, SECRET, CLAIM = "configmap", "secret", "persistentvolumeclaim"
ACCOUNT, AUTHORITY = "serviceaccount", "authority"


@dataclass(frozen=True, slots=True)
class AccountToken(SourceReference):
    """A token of a service account, bound to a pod.

    Attributes:
        pod: name of the pod.
        uid: uid of the pod.
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


@dataclass(frozen=True, slots=True)
class Invocation:
    """The start of a container: command, environment, directory.

    Attributes:
        argv: program and arguments.
        env: the whole environment.
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
    sources: Mapping[SourceReference, Mapping[str, bytes] | None],
    given: Mapping[str, str],
) -> Invocation:
    """Compute how `container` is started.

    Args:
        pod: pod of the container.
        container: its specification.
        image: its environment.
        downward: values that the machine adds.
        sources: the data of all `env_sources`, None for those that do not exist.
        given: variables that the kubelet adds.

    Raises:
        BadConfiguration: a referenced object is missing, or there is no command.
    """
    declared: dict[str, str] = dict(given)
    for group in container.env_from:
        declared.update(_taken_over(group, sources))
    for variable in container.env:
        value = _value(variable, declared, pod, container, downward=downward, sources=sources)
        if value is not None:
            declared[variable.name] = value
    command = tuple(expand(word, declared) for word in container.command) or image.entrypoint
    args = tuple(expand(word, declared) for word in container.args)
    if not container.command and not container.args:
        args = image.command
    if not command + args:
        raise InvalidConfiguration("no command specified")
    hostname = pod.spec.hostname or pod.metadata.name
    env = {**image.variables, "HOSTNAME": hostname, **declared}
    return Invocation(command + args, env, expand(container.working_dir, declared))


def _taken_over(
    group: EnvFrom, sources: Mapping[SourceReference, Mapping[str, bytes] | None]
) -> Iterator[tuple[str, str]]:
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
    sources: Mapping[SourceReference, Mapping[str, bytes] | None],
) -> str | None:
    """Return the value of one variable, None if it is optional and missing."""
    origin = variable.value_from
    if origin is None:
        return expand(variable.value, declared)
    try:
        if origin.field_ref:
            return field_value(origin.field_ref, pod, pod.metadata, downward)
        if origin.resource_field_ref:
            return resource_value(origin.resource_field_ref, pod, container, downward)
    except UnsupportedFieldReference as error:
        raise InvalidConfiguration(f"env {variable.name}: {error}") from error
    if origin.config_map_key_ref:
        return _keyed(CONFIG_MAP, origin.config_map_key_ref, pod, sources)
    if origin.secret_key_ref:
        return _keyed(SECRET, origin.secret_key_ref, pod, sources)
    raise InvalidConfiguration(f"env {variable.name}: valueFrom names no source that is known here")


def _keyed(
    kind: str,
    wanted: ObjectKey,
    pod: SpecifiedPod,
    sources: Mapping[SourceReference, Mapping[str, bytes] | None],
) -> str | None:
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

"""Validation errors that tell users what to change, and the typed views in which they are found."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.metadata import is_dns_1035_label
from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.kube.objects import ObjectMeta, View

_SPEC_PATH: Final = re.compile(r"(?<![\w.])spec(?=[.\[]|$)")
"""Matches the start of a path in the specification."""


class Problem(Struct, frozen=True):
    """A validation error of an object, and all others that were found with it.

    Attributes:
        field: path of the field, `spec.workerGroupSpecs[0].minReplicas`.
        message: the error and its remedy, a predicate of the field.
        reason: reason of the condition and the event; empty until the kind's validation sets it.
        against: paths of the other fields of a contradiction, which the message names too.
    """

    field: str
    message: str
    reason: str = ""
    against: tuple[str, ...] = ()
    others: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        """Return `spec.rayVersion: must be set ...`, and the same for each other problem."""
        return ". Also ".join(f"{each.field}: {each.message}" for each in self.all)

    @property
    def all(self) -> tuple[Problem, ...]:
        """This problem and the others, each alone."""
        return (replace(self, others=()), *self.others)

    def concerns(self, *paths: str) -> bool:
        """Return whether one of the problems is about one of these fields or a part of it."""
        fields = [path for each in self.all for path in (each.field, *each.against)]
        return any(_is_part(field, path) for field in fields for path in paths)

    def or_reason(self, reason: str) -> Problem:
        """Return the same problem, with this reason if it has none."""
        return self if self.reason else replace(self, reason=reason)

    def under(self, path: str, reason: str) -> Problem:
        """Return the same problem of a specification that is embedded at `path` elsewhere."""
        moved = [
            Problem(
                _SPEC_PATH.sub(path, each.field),
                _SPEC_PATH.sub(path, each.message),
                reason,
                tuple(_SPEC_PATH.sub(path, field) for field in each.against),
            )
            for each in self.all
        ]
        return replace(moved[0], others=tuple(moved[1:]))


def together(problems: Iterable[Problem]) -> Problem | None:
    """Return all problems of an object as one; None if there are none.

    Contradictions come first: who corrects one field of them meets the next refusal.
    """
    found = list(dict.fromkeys(each for problem in problems for each in problem.all))
    found.sort(key=lambda each: not each.against)
    return replace(found[0], others=tuple(found[1:])) if found else None


def _is_part(field: str, path: str) -> bool:
    return field == path or field.startswith((f"{path}.", f"{path}["))


# The kubectl command that a message advises for labels and annotations.


def overwrite_command(
    verb: Literal["annotate", "label"], kind: str, metadata: ObjectMeta, values: Mapping[str, str]
) -> str:
    """Return the command that gives an object these annotations or labels, whatever it has now."""
    pairs = " ".join(f"{key}={value}" for key, value in values.items())
    return (
        f"kubectl {verb} {kind.lower()} -n {metadata.namespace} {metadata.name} --overwrite {pairs}"
    )


# Typed views of the fields of pod templates that Manta reads or changes, for validation.
#
# Templates stay plain data everywhere else. Other fields are copied to the pod unread, and the API
# server validates them there.

Amount: TypeAlias = str | int | float

T = TypeVar("T")

NO_CONTAINER: Final = "needs at least one container, the Ray container"


class Variable(View, frozen=True):
    """`env[]`."""

    name: str
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Port(View, frozen=True):
    """`ports[]`."""

    container_port: int
    name: str = ""


class MountShape(View, frozen=True):
    """`volumeMounts[]`."""

    name: str
    mount_path: str


class ResourcesShape(View, frozen=True):
    """`resources`."""

    limits: dict[str, Amount] = msgspec.field(default_factory=dict[str, Amount])
    requests: dict[str, Amount] = msgspec.field(default_factory=dict[str, Amount])


class ContainerShape(View, frozen=True):
    """`containers[]` and `initContainers[]`."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    ports: tuple[Port, ...] = ()
    volume_mounts: tuple[MountShape, ...] = ()
    resources: ResourcesShape = ResourcesShape()

    def variable(self, name: str) -> Variable | None:
        """Return the first entry of that name in `env`."""
        return next((entry for entry in self.env if entry.name == name), None)


class VolumeShape(View, frozen=True):
    """`volumes[]`."""

    name: str


class PodShape(View, frozen=True):
    """`spec`."""

    containers: tuple[ContainerShape, ...] = ()
    init_containers: tuple[ContainerShape, ...] = ()
    volumes: tuple[VolumeShape, ...] = ()
    restart_policy: str = ""
    service_account_name: str = ""


class MetadataShape(View, frozen=True):
    """`metadata`."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] = ()


def plain_path(path: object) -> str:
    """Return an absolute path in its one plain notation: `/dev/shm` for `/dev//shm/`.

    Only the API server checks the types of further containers: what is no text is compared as text.
    """
    return posixpath.normpath(f"/{str(path).lstrip('/')}")


class TemplateShape(View, frozen=True):
    """A pod template."""

    metadata: MetadataShape = MetadataShape()
    spec: PodShape = PodShape()

    @property
    def ray(self) -> ContainerShape:
        """The Ray container, which is always the first."""
        return self.spec.containers[0]


class ServicePortShape(View, frozen=True):
    """`ports[]` of a service."""

    port: int
    name: str = ""


class ServiceSpecShape(View, frozen=True):
    """`spec` of a service."""

    ports: tuple[ServicePortShape, ...] = ()


class ServiceMetadata(MetadataShape, frozen=True):
    """`metadata` of a service."""

    name: str = ""


class ServiceShape(View, frozen=True):
    """The user's own head service."""

    metadata: ServiceMetadata = ServiceMetadata()
    spec: ServiceSpecShape = ServiceSpecShape()


def service_problem(service: dict[str, Any] | None, path: str) -> Problem | None:
    """Return the problem of the user's own head service; None if it is valid."""
    try:
        shape = msgspec.convert(service or {}, ServiceShape)
    except msgspec.ValidationError as error:
        return malformed(error, path)
    if shape.metadata.name and not is_dns_1035_label(shape.metadata.name):
        return Problem(f"{path}.metadata.name", "is not a valid name of a service")
    return None


def read_template(template: dict[str, Any], path: str) -> TemplateShape | Problem:
    """Return the typed fields of a template, or all of its problems as one."""
    try:
        shape = msgspec.convert(template, TemplateShape)
    except msgspec.ValidationError as error:
        return malformed(error, path)
    return together(_problems(shape, path)) or shape


def _problems(shape: TemplateShape, path: str) -> Iterator[Problem]:
    if not shape.spec.containers:
        yield Problem(f"{path}.spec.containers", NO_CONTAINER)
    yield from _wrong_quantities(shape, path)


def malformed(error: msgspec.ValidationError, path: str) -> Problem:
    """Convert a type error, whose message ends with ` - at `$.the.path``, to a problem."""
    message, _, where = str(error).partition(" - at `$")
    return Problem(f"{path}{where.rstrip('`')}", message)


_LONGEST_ANNOTATION: Final = 1000


def read_annotation(text: str, type: type[T], field: str, remedy: str) -> T | Problem:  # noqa: A002
    """Return the value of the annotation `field` that holds a field's JSON, or its problem.

    The type forbids unknown fields, because no API server drops them here. The remedy says what to
    write, such as an example.
    """
    if len(text) > _LONGEST_ANNOTATION:
        count = f"has {len(text)} characters, and more than {_LONGEST_ANNOTATION} are not read"
        return Problem(field, f"{count}; {remedy}")
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.ValidationError as error:
        problem = malformed(error, field)
        return Problem(problem.field, f"{problem.message}; {remedy}")
    except (msgspec.DecodeError, UnicodeError) as error:
        return Problem(field, f"is no JSON ({error}); {remedy}")


def field_or_annotation(
    given: T | None,
    text: str,
    types: tuple[type[T], type[T]],
    paths: tuple[str, str],
    remedy: str,
) -> T | Problem | None:
    """Return the value of a field for which an annotation may stand, or its problem.

    Types are those of the field, and a subtype of it that forbids unknown fields; paths are those
    of the field and of the annotation.
    """
    if not text.strip():
        return given
    read = read_annotation(text.strip(), types[1], paths[1], remedy)
    if isinstance(read, Problem):
        return read
    annotated = msgspec.convert(msgspec.to_builtins(read), types[0])
    if given is not None and given != annotated:
        return Problem(paths[1], f"contradicts {paths[0]}; remove one of them")
    return annotated


def _wrong_quantities(shape: TemplateShape, path: str) -> Iterator[Problem]:
    containers = {
        f"{field}[{position}]": container.resources
        for field, listed in (
            ("containers", shape.spec.containers),
            ("initContainers", shape.spec.init_containers),
        )
        for position, container in enumerate(listed)
    }
    for where, resources in containers.items():
        for kind, amounts in (("limits", resources.limits), ("requests", resources.requests)):
            for name, amount in amounts.items():
                try:
                    parse_quantity(amount)
                except InvalidQuantity as error:
                    yield Problem(f"{path}.spec.{where}.resources.{kind}[{name}]", str(error))

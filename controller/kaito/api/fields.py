"""Errors of single fields and of `resource`, in the words of Kaito's webhook."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import (
    DataDestination,
    DataSource,
    LabelSelector,
    Partition,
    ResourceSpec,
    SelectorRequirement,
)
from controller.kaito.presets.gpus import (
    UnknownGPUs,
    gpus_of_slice,
    instance_type_names,
    may_be_provisioned,
)

INVALID: Final = "InvalidWorkspaceSpec"
"""Reason of the condition of an object that its validation rejects."""

EMPTY: Final = '""'
"""A value without any text, as messages show it."""


class FieldError(Struct, frozen=True):
    """An error of one or more fields, with the text that Kaito's users know.

    Kaito's webhook is built with knative, whose form this is: `message: path, path`, one error a
    line, sorted; equal messages share a line.

    Attributes:
        paths: paths of the fields, relative to where the error was found; empty only where the
            message names what it is about.
    """

    message: str
    paths: tuple[str, ...] = ()
    details: str = ""

    def __str__(self) -> str:
        """Return `invalid value: x: resource.instanceType`."""
        text = f"{self.message}: {', '.join(self.paths)}" if self.paths else self.message
        return f"{text}\n{self.details}" if self.details else text


def wrong(message: str, *paths: str) -> FieldError:
    """Return an error about fields."""
    return FieldError(message, paths)


def invalid_value(value: object, path: str, details: str = "") -> FieldError:
    """Return an error about a value, or a sentence in its place."""
    return FieldError(f"invalid value: {value}", (path,), details)


def missing_field(*paths: str) -> FieldError:
    """Return an error about missing fields."""
    return wrong("missing field(s)", *paths)


def via(prefix: str, errors: Iterable[FieldError]) -> Iterator[FieldError]:
    """Yield the errors with `prefix` before their paths."""
    for error in errors:
        paths = tuple(".".join(filter(None, (prefix, path))) for path in error.paths)
        yield replace(error, paths=paths)


def message_of(errors: Iterable[FieldError]) -> str:
    """Return the text of all errors."""
    paths: dict[tuple[str, str], set[str]] = {}
    for error in errors:
        paths.setdefault((error.message, error.details), set()).update(error.paths)
    merged = [
        FieldError(message, tuple(sorted(found)), details)
        for (message, details), found in sorted(paths.items())
    ]
    return "\n".join(map(str, merged))


def as_problem(errors: tuple[FieldError, ...], reason: str = INVALID) -> Problem | None:
    """Return all errors as one problem of the object, None if there are none."""
    if not errors:
        return None
    first = next((path for error in errors for path in error.paths if path), "spec")
    return Problem(first, message_of(errors), reason)


_HEXADECIMAL_ID: Final = re.compile(r"[a-f0-9]{64}")
_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_PART}(?:/{_PART})*)(?::[\w][\w.-]{{0,127}})?(?:@{_DIGEST})?",
    re.ASCII,
)
_LONGEST_NAME: Final = 255
_LONGEST: Final = 1024
"""Characters of a reference that is looked at."""


def image_problem(image: str) -> str:
    """Return why a text is no reference of an image, as Kaito's library says; empty if it is."""
    if len(image) > _LONGEST:
        return "invalid reference format"
    if _HEXADECIMAL_ID.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    domain, remainder = split_domain(image)
    repository = remainder.partition(":")[0]
    if repository != repository.lower():
        return f"invalid reference format: repository name ({repository}) must be lowercase"
    match = _REFERENCE.fullmatch(f"{domain}/{remainder}")
    if match is None:
        return "invalid reference format"
    if len(match["path"]) > _LONGEST_NAME:
        return f"repository name must not be more than {_LONGEST_NAME} total characters"
    return ""


def split_domain(image: str) -> tuple[str, str]:
    """Return the registry, which is Docker's if none is named, and the rest."""
    first, slash, rest = image.partition("/")
    is_domain = "." in first or ":" in first or first == "localhost" or first != first.lower()
    domain, remainder = (first, rest) if slash and is_domain else ("docker.io", image)
    if domain == "docker.io" and "/" not in remainder:
        remainder = f"library/{remainder}"
    return domain, remainder


_METADATA_HOSTS: Final = frozenset(
    {"metadata.google.internal", "metadata.google", "instance-data.ec2.internal"}
)


def source_errors(source: DataSource) -> Iterator[FieldError]:
    """Yield errors of a source: exactly one of addresses, image and volume, well-formed."""
    for url in source.urls:
        problem = url_problem(url)
        if problem:
            yield invalid_value(problem, "URLs")
    yield from image_errors(source.image, "input")
    if [bool(source.urls), bool(source.image), source.volume is not None].count(True) != 1:
        message = "Exactly one of URLs, Volume, or Image must be specified"
        yield wrong(message, "URLs", "Volume", "Image")


def destination_errors(destination: DataDestination) -> Iterator[FieldError]:
    """Yield errors of a destination: exactly one of image and volume, well-formed."""
    yield from image_errors(destination.image, "output")
    if destination.image and not destination.image_push_secret:
        yield missing_field("Must specify imagePushSecret with destination image")
    if bool(destination.image) is (destination.volume is not None):
        yield missing_field("Exactly one of Volume or Image must be specified")


def image_errors(image: str, what: str) -> Iterator[FieldError]:
    """Yield the error of an image's reference, if it has one."""
    problem = image_problem(image) if image else ""
    if problem:
        yield invalid_value(f"Unable to parse {what} image reference: {problem}", "Image")


def url_problem(url: str) -> str:
    """Return why nothing may be downloaded from an address; empty if it may."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return "invalid data source URL"
    if not parts.scheme or not host or url != url.strip():
        return "invalid data source URL"
    if parts.scheme.lower() not in {"http", "https"}:
        return "data source URL must use HTTP or HTTPS"
    if host == "localhost" or host.endswith(".localhost") or host in _METADATA_HOSTS:
        return "data source URL must not target a local or metadata endpoint"
    if _is_internal(host):
        return "data source URL must not target a loopback, private, or link-local address"
    return ""


_PRIVATE: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"),
        *("224.0.0.0/24", "::1/128", "fc00::/7", "fe80::/10", "ff02::/16"),
    )
)


def _is_internal(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _PRIVATE)


_OTHER_OPERATORS: Final = frozenset({"NotIn", "Exists", "DoesNotExist"})
_ONE_NODE: Final = (
    "Tuning does not currently support multinode configurations. Please set the node count to 1. "
    "Future support with DeepSpeed will allow this."
)


def instance_type_errors(resource: ResourceSpec, options: KaitoOptions) -> Iterator[FieldError]:
    """Yield the error of an instance type: required for provisioned nodes, else not allowed."""
    path = "resource.instanceType"
    if options.has_own_nodes and resource.instance_type:
        message = "instanceType must be empty when node auto-provisioning is disabled"
        yield invalid_value(f"{message} (BYO scenario)", path)
    if not options.has_own_nodes and not resource.instance_type:
        yield missing_field("instanceType is required when node auto-provisioning is enabled", path)


def inference_resource_errors(
    resource: ResourceSpec, options: KaitoOptions
) -> Iterator[FieldError]:
    """Yield errors that do not depend on the existing nodes."""
    if resource.count is not None and resource.count < 0:
        yield invalid_value(resource.count, "count", "must be non-negative")
    error = selector_error(resource.label_selector)
    if error is not None:
        yield error
    elif options.has_own_nodes:
        if resource.partition is not None:
            yield from partition_errors(resource.partition, options)
    elif resource.partition is not None:
        gate = "disableNodeAutoProvisioning=true"
        yield wrong(f"GPU partitioning is only supported with BYO nodes ({gate})", "partition")
    elif resource.instance_type and not may_be_provisioned(options.cloud, resource.instance_type):
        known = " ".join(instance_type_names(options.cloud))
        yield invalid_value(
            f"Unsupported instance type {resource.instance_type}. Supported SKUs: [{known}]",
            "instanceType",
        )


def tuning_resource_errors(resource: ResourceSpec) -> Iterator[FieldError]:
    """Yield errors of the nodes of a tuning."""
    if resource.count is not None and resource.count > 1:
        yield invalid_value(_ONE_NODE, "count")
    if resource.partition is not None:
        yield invalid_value("GPU partitioning is not supported for tuning workloads", "partition")


def selector_error(selector: LabelSelector | None) -> FieldError | None:
    """Return the error of a selector that can select no nodes; None if it can."""
    if selector is None:
        return None
    for requirement in selector.match_expressions:
        problem = _requirement_problem(requirement)
        if problem:
            return invalid_value(problem, "labelSelector")
    if selector.match_labels and not labels.without_reserved(selector.match_labels):
        return invalid_value(
            "matchLabels must contain at least one non-reserved label", "labelSelector.matchLabels"
        )
    return None


def selected_labels(selector: LabelSelector | None) -> dict[str, str] | None:
    """Return the selector as a map, None if it cannot be written as one."""
    if selector is None:
        return {}
    if any(_requirement_problem(each) for each in selector.match_expressions):
        return None
    expressions = {each.key: each.values[0] for each in selector.match_expressions}
    return {**selector.match_labels, **expressions}


def _requirement_problem(requirement: SelectorRequirement) -> str:
    """Return why a requirement is not a pair of key and value; empty if it is one."""
    operator, old = requirement.operator, "be converted into the old label selector format"
    if operator == "In":
        single = len(requirement.values) == 1
        return "" if single else f'operator "{operator}" without a single value cannot {old}'
    if operator in _OTHER_OPERATORS:
        return f'operator "{operator}" cannot {old}'
    return f'"{operator}" is not a valid selector operator'


def partition_errors(partition: Partition, options: KaitoOptions) -> Iterator[FieldError]:
    """Yield errors of the requested part of a node's GPUs."""
    match partition.mode:
        case "mig":
            yield from _slice_errors(partition, options)
        case "accelerator":
            yield from _accelerator_errors(partition, options)
        case mode:
            yield invalid_value(
                f'unsupported partition mode "{mode}", supported modes are "mig" and "accelerator"',
                "partition.mode",
            )


def _slice_errors(partition: Partition, options: KaitoOptions) -> Iterator[FieldError]:
    if not options.mig:
        yield wrong("MIG support is not enabled, set feature gate enableMIG=true", "partition")
    elif partition.count is not None:
        yield invalid_value("count is only valid for accelerator mode", "partition.count")
    else:
        try:
            gpus_of_slice(partition.profile)
        except UnknownGPUs as error:
            yield invalid_value(error, "partition.profile")


def _accelerator_errors(partition: Partition, options: KaitoOptions) -> Iterator[FieldError]:
    if not options.accelerators:
        gate = "set feature gate enableAccelerator=true"
        yield wrong(f"accelerator partition support is not enabled, {gate}", "partition")
        return
    if partition.profile:
        yield invalid_value("profile is not valid for accelerator mode", "partition.profile")
    if partition.count is None:
        yield missing_field("partition.count")

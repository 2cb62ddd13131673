"""Sources of data, and destinations of results."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from controller.kaito.api.validation.field_errors import FieldError, invalid_value, missing_field
from controller.kaito.api.validation.image_reference import image_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.workspace import DataDestination, DataSource

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
        yield FieldError(
            "Exactly one of URLs, Volume, or Image must be specified", ("URLs", "Volume", "Image")
        )


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
    map(
        ipaddress.ip_network,
        (
            *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
            *("169.254.0.0/16", "224.0.0.0/24"),
            *("::1/128", "fc00::/7", "fe80::/10", "ff02::/16"),
        ),
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

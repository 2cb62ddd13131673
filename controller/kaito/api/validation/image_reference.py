"""References of images, with the messages of the library that Kaito uses."""

from __future__ import annotations

import re
from typing import Final

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
    """Return why a text is not a reference of an image; empty if it is one."""
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

"""Ray versions as users write them in `spec.rayVersion`: `2.52.0`, `2.53.0rc1`, `nightly`."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

RayVersion: TypeAlias = tuple[int, int, int]

_NUMBERS: Final = re.compile(r"\s*v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?")

HTTP_PROBES_SINCE: Final[RayVersion] = (2, 53, 0)
TOKEN_AUTH_SINCE: Final[RayVersion] = (2, 52, 0)
KUBERNETES_AUTH_SINCE: Final[RayVersion] = (2, 55, 0)
JOB_METADATA_SINCE: Final[RayVersion] = (2, 6, 0)
GROUP_PRIORITY_SINCE: Final[RayVersion] = (2, 56, 0)


def parse_ray_version(text: str) -> RayVersion | None:
    """Return major, minor and patch number; None if the text begins with no two numbers."""
    match = _NUMBERS.match(text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def is_at_least(text: str, since: RayVersion) -> bool:
    """Return whether the version can be parsed and is not older than `since`."""
    version = parse_ray_version(text)
    return version is not None and version >= since

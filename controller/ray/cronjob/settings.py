"""Settings of the RayCronJob controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controller.ray.api.feature_gates import FeatureGates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

_LOCALTIME: Final = Path("/etc/localtime")


@dataclass(frozen=True, slots=True)
class CronJobSettings:
    """Settings of the RayCronJob controller.

    Attributes:
        local_zone: time zone of schedules without one.
        feature_gates: the enabled features.
    """

    local_zone: tzinfo = UTC
    feature_gates: FeatureGates = field(default_factory=FeatureGates)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], localtime: Path = _LOCALTIME
    ) -> CronJobSettings:
        """Find the zone as Go programs such as KubeRay do: `TZ`, else this file, else UTC.

        Args:
            environment: the process's variables.
            localtime: the file with the time zone of this machine.
        """
        return cls(local_zone=_local_zone(environment.get("TZ"), localtime))


def _local_zone(name: str | None, localtime: Path) -> tzinfo:
    try:
        if name is None:
            with localtime.open("rb") as data:
                return ZoneInfo.from_file(data, key=str(localtime))
        name = name.removeprefix(":")
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC

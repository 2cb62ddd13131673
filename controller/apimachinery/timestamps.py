"""RFC 3339 timestamps as Kubernetes writes them. All times are UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

_YEARS: Final = range(1970, 9000)
"""Years in which a time plus any int32 of seconds does not overflow."""

CLOCK_SKEW: Final = timedelta(minutes=1)
"""Time by which the clocks of several machines may differ."""

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def rfc3339(moment: datetime) -> str:
    """Return `2026-08-20T10:00:00Z`, a `metav1.Time` with whole seconds."""
    return f"{_utc(moment).isoformat(timespec='seconds')}Z"


def rfc3339_micro(moment: datetime) -> str:
    """Return `2026-08-20T10:00:00.000000Z`, a `metav1.MicroTime`."""
    return f"{_utc(moment).isoformat(timespec='microseconds')}Z"


def _utc(moment: datetime) -> datetime:
    """Return the moment without its offset, which `isoformat` would write as `+00:00`."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def parse_rfc3339(text: str) -> datetime:
    """Return the moment that `text` names.

    Raises:
        ValueError: `text` is not an RFC 3339 timestamp with an offset, or its year is out of range.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without offset: {text!r}")
    if moment.year not in _YEARS:
        raise ValueError(f"timestamp out of range: {text!r}")
    return moment


def time_of(value: Any) -> datetime | None:
    """Return the moment, in UTC, in a field of the API; None if the value is not a timestamp.

    No schema guarantees fields that others write: a value that is not a time counts as absent.
    """
    try:
        return parse_rfc3339(value).astimezone(UTC)
    except (TypeError, ValueError):
        return None


def without_times(value: Any) -> Any:
    """Return plain data with every timestamp replaced by an empty string, for comparisons."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [without_times(item) for item in cast("list[Any]", value)]
    return "" if isinstance(value, str) and _RFC3339.fullmatch(value) else value


def counted_from(start: datetime, steady_since: datetime | None, now: datetime) -> datetime:
    """Return `start`, or `steady_since` if `start` lies in the future by more than `CLOCK_SKEW`.

    A clock that was ahead may have written such a time. `steady_since` comes from a clock that has
    not jumped, so it is not in the future.
    """
    is_ahead = start > now + CLOCK_SKEW
    return min(steady_since, now) if is_ahead and steady_since is not None else start

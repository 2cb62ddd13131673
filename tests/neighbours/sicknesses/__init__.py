"""All sicknesses, by what they strike."""

from __future__ import annotations

from msgspec.structs import replace

from tests.neighbours.sickness import KAITO
from tests.neighbours.sicknesses import (
    admission,
    clouds,
    dashboards,
    gangs,
    objects,
    others,
    pairs,
    pods,
    refusals,
    servers,
    waits,
)

_OF_RAYS = tuple(
    replace(each, spares=each.spares | KAITO) for each in (*objects.SICKNESSES, *pods.SICKNESSES)
)
"""Rows that strike the description of a cluster, or its pods."""

SICKNESSES = (
    *refusals.SICKNESSES,
    *waits.SICKNESSES,
    *_OF_RAYS,
    *others.SICKNESSES,
    *dashboards.SICKNESSES,
    *gangs.SICKNESSES,
    *servers.SICKNESSES,
    *clouds.SICKNESSES,
    *admission.SICKNESSES,
    *pairs.SICKNESSES,
)

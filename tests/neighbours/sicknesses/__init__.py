"""All sicknesses, by what they strike."""

from __future__ import annotations

from tests.neighbours.sicknesses import dashboards, objects, others, pods, refusals, servers, waits

SICKNESSES = (
    *refusals.SICKNESSES,
    *waits.SICKNESSES,
    *objects.SICKNESSES,
    *pods.SICKNESSES,
    *others.SICKNESSES,
    *dashboards.SICKNESSES,
    *servers.SICKNESSES,
)

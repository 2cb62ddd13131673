"""The possible results of probes and commands."""

from __future__ import annotations

from typing import TypeAlias

from controller.ray.dashboard.client.closing import ConnectionsClosed
from controller.ray.dashboard.client.draining import NodesDraining
from controller.ray.dashboard.client.nodes import RayNodes
from controller.ray.dashboard.client.results import (
    JobDeleted,
    JobInfo,
    NoSuchJob,
    RayVersion,
    Submitted,
)
from controller.ray.dashboard.client.serve import ProxyHealth, ServeConfigAccepted, ServeState

ProbeValue: TypeAlias = JobInfo | NoSuchJob | RayVersion | ServeState | ProxyHealth | RayNodes
CommandValue: TypeAlias = (
    Submitted
    | JobInfo
    | JobDeleted
    | NoSuchJob
    | ServeConfigAccepted
    | NodesDraining
    | ConnectionsClosed
)

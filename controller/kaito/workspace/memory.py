"""The memory of a Workspace's plans, besides what they store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from controller.kaito.provisioning.node_history import NodeHistory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.provisioning.commitment import Slot
    from controller.runtime.plan import Plan


@dataclass(frozen=True, slots=True)
class WorkspaceMemory:
    """The memory of a plan for the next one. A restart forgets it.

    Attributes:
        generation: the generation of the Workspace that was read last, as the guard of its
            definition remembers it.
        slots: slots of the stored set with what their claims have shown, by name.
        nodes: the nodes.
    """

    generation: object = None
    slots: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])
    nodes: NodeHistory = field(default_factory=NodeHistory)


def memory_of(remembered: object) -> WorkspaceMemory:
    """Return the memory of the last plan, an empty one if there is none."""
    return remembered if isinstance(remembered, WorkspaceMemory) else WorkspaceMemory()


def remember(plan: Plan, memory: WorkspaceMemory, read: object) -> Plan:
    """Return the plan with the generation that was read, if it has changed.

    Args:
        plan: the plan; without a memory of its own it keeps `memory`.
        memory: the memory of the last plan.
        read: the generation; None if it has not changed.
    """
    if read is None:
        return plan
    memory = memory if plan.memory is None else memory_of(plan.memory)
    return replace(plan, memory=replace(memory, generation=read))

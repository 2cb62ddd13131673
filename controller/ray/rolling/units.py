"""The input of a rolling replacement: units, reduced to booleans, and groups of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Budget:
    """The units that a group may lack, or have in addition, during a replacement. Not both are 0.

    Attributes:
        unavailable: units that may be missing from the desired number.
        surge: units that may exist beyond the desired number.
    """

    unavailable: int = 0
    surge: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of replacement: a worker pod, a replica of several hosts, or a cluster.

    Attributes:
        name: identity within its group.
        up_to_date: whether it was created from the present template.
        available: whether it can do work now: ready, and known to Ray.
        joined: whether it may do or hold work: an unavailable unit that may come back, or one about
            which nothing is known. What is available has joined.
        draining: whether it gets no more work. It stays so: a draining unit is replaced even if it
            is up to date again.
        drained: whether its deletion loses no work, or its drain has taken too long.
        gone: whether it is being deleted. It still exists.
    """

    name: str
    up_to_date: bool
    available: bool = False
    joined: bool = False
    draining: bool = False
    drained: bool = False
    gone: bool = False

    @property
    def staying(self) -> bool:
        """True if it is neither draining nor being deleted."""
        return not (self.draining or self.gone)

    @property
    def is_leaving(self) -> bool:
        """True if it is draining and not yet being deleted."""
        return self.draining and not self.gone

    @property
    def is_old(self) -> bool:
        """True if it is still to be replaced."""
        return self.staying and not self.up_to_date

    @property
    def serves(self) -> bool:
        """True if it counts as available: a draining unit does not."""
        return self.staying and self.available


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Units that are created from one template.

    Attributes:
        name: name of the group.
        desired: desired number of units.
        units: its units, including those being deleted; of two alike, the first is replaced first.
        budget: budget for the desired number.
        unproven: whether it is unknown if units of the present template can join the others. Then
            one is tried before another is replaced.
    """

    name: str
    desired: int
    units: tuple[Unit, ...] = ()
    budget: Budget = field(default_factory=Budget)
    unproven: bool = False

    @property
    def serving(self) -> int:
        """The number of units that are available and stay so."""
        return sum(unit.serves for unit in self.units)

    @property
    def has_enough(self) -> bool:
        """True if as many units are available as the budget demands."""
        return self.serving >= self.desired - self.budget.unavailable

    @property
    def is_whole(self) -> bool:
        """True if as many units are available as it should have."""
        return self.serving >= self.desired

    @property
    def is_done(self) -> bool:
        """True if nothing is left to replace. Units that are being deleted need not be gone."""
        return not any(unit.is_old or unit.is_leaving for unit in self.units)

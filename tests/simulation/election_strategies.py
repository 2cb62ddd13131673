"""How hypothesis draws a life of two operators with one lease."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation.strategies import (
    MOST_CLUSTERS,
    MOST_STEPS,
    clusters,
    delays,
    fault_of,
    in_order,
    lags,
    scalings,
    steps,
    storms,
    surroundings,
)

MOST_LATE = 4.0
"""Seconds that a write is under way: an operator stops writing five seconds before its lease ends.

Nothing in the API prevents that a write of a former leader is carried out that was on its way.
"""


def _soon(step: s.Step) -> s.Step:
    """The step, but no write arrives after the lease of its sender."""
    fault = step.action
    if not isinstance(fault, s.Fault) or fault.kind != "straggling":
        return step
    return s.Step(step.delay, msgspec.structs.replace(fault, seconds=min(fault.seconds, MOST_LATE)))


at_leases = fault_of(
    ["refused", "lost answer", "lost request", "late", "slow", "409", "429", "500", "503"],
    st.sampled_from(["leases.coordination.k8s.io", "leases.coordination.k8s.io", ""]),
)
anywhere = fault_of(
    ["refused", "lost answer", "late", "slow", "lag", "cut", "gone", "rewound", "unreadable"],
    st.sampled_from(["", "pods"]),
)
of_one = st.builds(
    s.OneSided, st.one_of(at_leases, anywhere), st.sampled_from(["leader", "leader", "standby"])
)
restarts = st.builds(
    s.Restart,
    st.sampled_from(["kill", "before", "after", "stop"]),
    st.sampled_from([0.0, 1.0, 10.0, 30.0]),
)
actions = st.one_of(at_leases, of_one, restarts, of_one, st.builds(s.DeleteLease))
single = st.builds(s.Step, delays, actions).map(lambda step: (step,))
lags_of_the_standby = st.builds(s.OneSided, lags, st.just("standby"))
together = st.one_of(
    st.tuples(lags_of_the_standby, scalings, restarts),
    st.tuples(of_one, scalings),
    st.tuples(of_one, restarts),
    st.tuples(st.builds(s.DeleteLease), restarts),
)
lives_of_elections = st.builds(
    s.Scenario,
    surroundings,
    st.lists(clusters(), min_size=1, max_size=MOST_CLUSTERS).map(tuple),
    st.lists(st.one_of(single, steps, storms(together)), min_size=4, max_size=MOST_STEPS)
    .map(in_order)
    .map(lambda drawn: tuple(map(_soon, drawn))),
    elected=st.just(value=True),
)

"""How hypothesis draws lives in which nodes are taken away, with what may be done about it."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation import strategies

MOST_CLUSTERS = 2
MOST_STEPS = 12

which = st.integers(0, MOST_CLUSTERS - 1)
waits = st.sampled_from([0.0, 0.3, 6.0, 15.0, 29.0, 70.0])
groups = st.builds(s.Group, st.just(0), st.integers(1, 3), st.just(0), st.just(6))
clusters = st.builds(
    s.Cluster,
    st.tuples(groups),
    idle=st.sampled_from([60, 20]),
    budgets=st.just(True),
    graceful=st.booleans(),
)
fates = st.builds(s.Fate, st.just("SUCCEEDED"), running=st.sampled_from([5.0, 40.0]))
jobs = st.builds(
    s.Job,
    st.sampled_from(["HTTPMode", "K8sJobMode"]),
    backoff=st.sampled_from([0, 1]),
    fates=st.tuples(fates),
    workers=st.sampled_from([0, 1]),
    disruptions=st.sampled_from([2, 1, 0]),
)
evictions = st.one_of(
    st.builds(
        s.TakeNode,
        st.integers(0, 1),
        st.sampled_from(["cordon", "drain", "drain", "taint", "vanish", "back"]),
    ),
    st.builds(s.Evict, st.integers(0, 5)),
)
uses = st.builds(s.Use, which, st.sampled_from([1.0, 20.0, 100.0]))
troubles = st.one_of(strategies.ray_faults, strategies.restarts, strategies.faults)


def _steps(
    beside: st.SearchStrategy[s.AnyAction], *, least: int
) -> st.SearchStrategy[tuple[s.Step, ...]]:
    """Of two lives one is without troubles of the operator: it must know all that happens."""
    calm = st.one_of(evictions, evictions, beside)
    return st.one_of(
        st.lists(st.builds(s.Step, waits, actions), min_size=least, max_size=MOST_STEPS).map(tuple)
        for actions in (calm, st.one_of(calm, calm, troubles))
    )


surroundings = st.builds(
    lambda drawn: msgspec.structs.replace(drawn, scheduling=True), strategies.surroundings
)
lives_of_disruptions = st.one_of(
    st.builds(
        s.Scenario,
        surroundings,
        st.lists(clusters, min_size=1, max_size=MOST_CLUSTERS).map(tuple),
        _steps(uses, least=4),
        st.lists(jobs, max_size=1).map(tuple),
        work=st.sampled_from([0.0, 10.0, 60.0]),
    ),
    st.builds(
        s.Scenario,
        surroundings,
        st.just(()),
        _steps(strategies.service_edits, least=3),
        services=st.tuples(strategies.services),
    ),
)

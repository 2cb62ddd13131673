"""How hypothesis draws a life in which operators follow upon KubeRay's, or an early release."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation.strategies import (
    MOST_CLUSTERS,
    MOST_STEPS,
    accidents,
    clusters,
    delays,
    edits,
    in_order,
    lags,
    scalings,
    steps,
    storms,
    surroundings,
)

handovers = st.builds(
    s.Restart,
    st.sampled_from(["kill", "before", "after", "stop"]),
    st.sampled_from([0.0, 1.0, 10.0]),
    marks=st.just(value=False),
)
single = st.builds(s.Step, delays, handovers).map(lambda step: (step,))
together = st.one_of(
    st.tuples(handovers, scalings),
    st.tuples(handovers, edits),
    st.tuples(handovers, accidents),
    st.tuples(lags, handovers),
)
lives_of_handovers = st.builds(
    s.Scenario,
    surroundings,
    st.lists(clusters(), min_size=1, max_size=MOST_CLUSTERS).map(tuple),
    st.lists(st.one_of(single, steps, storms(together)), min_size=4, max_size=MOST_STEPS).map(
        in_order
    ),
)

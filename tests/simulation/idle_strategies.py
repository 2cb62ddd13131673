"""How hypothesis draws lives of clusters that end when nobody uses them."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation import strategies

MOST_CLUSTERS = 2
MOST_STEPS = 12

which = st.integers(0, MOST_CLUSTERS - 1)
waits = st.sampled_from([0.3, 6.0, 15.0, 29.0, 45.0, 70.0])
idle_clusters = st.builds(
    lambda cluster, timeout: msgspec.structs.replace(
        cluster, idle=timeout, budgets=True, storage="", recreate=False
    ),
    strategies.clusters(),
    st.sampled_from([60, 20]),
)
lasts = st.sampled_from([1.0, 20.0, 100.0])
users = st.one_of(
    st.builds(s.Use, which, lasts),
    st.builds(s.Use, which, lasts, before=st.sampled_from([1.0, 1.0, -5.0])),
    st.builds(s.Use, which, lasts, before=st.just(1.0)),
    st.builds(s.Wake, which),
)
steps = st.builds(
    s.Step,
    waits,
    st.one_of(
        users,
        users,
        users,
        st.builds(s.Evict, st.integers(0, 5)),
        st.builds(s.Suspend, which, st.sampled_from([True, False, None])),
        strategies.scalings,
        strategies.accidents,
        strategies.ray_faults,
        strategies.restarts,
        strategies.faults,
    ),
)
lives_of_idle = st.builds(
    s.Scenario,
    strategies.surroundings,
    st.lists(idle_clusters, min_size=1, max_size=MOST_CLUSTERS).map(tuple),
    st.lists(steps, min_size=4, max_size=MOST_STEPS).map(tuple),
)

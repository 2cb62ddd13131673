"""How hypothesis draws a life in which etcd is restored to an earlier state.

No autoscaler runs in it, which would find pods again that it has seen die, and no definition lacks
anything, which would come back with it. The server knows streaming lists: of others an operator
learns only from the first bookmark, after a minute, that silence means something.
"""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation.strategies import (
    MOST_CLUSTERS,
    accidents,
    clusters,
    delays,
    edits,
    faults,
    in_order,
    lags,
    lives,
    restarts,
    scalings,
    storms,
    surroundings,
    which,
)

MOST_STEPS = 14

plain_clusters = clusters().map(lambda each: msgspec.structs.replace(each, autoscaler=""))
restores = st.builds(s.RestoreDatabase, st.sampled_from([0.3, 3.0, 10.0, 30.0]), st.booleans())
plain_lives = st.one_of(lives, st.builds(s.Create, which, plain_clusters)).filter(
    lambda action: not isinstance(action, s.Create) or not action.body.autoscaler
)
single = st.builds(
    s.Step, delays, st.one_of(scalings, restores, accidents, edits, faults, restarts, plain_lives)
).map(lambda step: (step,))
together = st.one_of(
    st.tuples(restores, scalings),
    st.tuples(restores, edits, accidents),
    st.tuples(lags, restores, scalings),
    st.tuples(restores, restarts),
    st.tuples(restores, plain_lives),
)
lives_of_restores = st.builds(
    s.Scenario,
    surroundings.map(lambda each: msgspec.structs.replace(each, streaming=True)),
    st.lists(plain_clusters, min_size=1, max_size=MOST_CLUSTERS).map(tuple),
    st.lists(st.one_of(single, single, storms(together)), min_size=4, max_size=MOST_STEPS).map(
        in_order
    ),
)

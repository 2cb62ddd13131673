"""How hypothesis draws a life of RayCronJobs, which lasts for minutes: they tick once in one."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.simulation import scenario as s
from tests.simulation.strategies import (
    fault_of,
    hooked,
    in_order,
    jumps,
    lasting,
    late,
    restarts,
    storms,
    surroundings,
)

MOST_CRONS = 2
MOST_STEPS = 12

which = st.integers(0, MOST_CRONS - 1)
delays = st.sampled_from([0.0, 0.3, 5.0, 20.0, 30.0, 58.0, 60.0, 119.0])
resources = st.sampled_from(["rayjobs.ray.io", "raycronjobs.ray.io", ""])
limits = st.sampled_from([None, None, 0, 1, 2])
crons = st.builds(
    s.CronJob,
    every=st.sampled_from([1, 1, 2]),
    policy=st.sampled_from(["Allow", "Forbid", "Replace"]),
    deadline=st.sampled_from([0, 0, 20, 90]),
    successful=limits,
    failed=limits,
    fates=st.lists(
        st.builds(
            s.Fate,
            st.sampled_from(["SUCCEEDED", "SUCCEEDED", "FAILED", "endless"]),
            st.sampled_from([0.0, 1.0]),
            st.sampled_from([5.0, 40.0, 58.0, 100.0]),
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
)
own = st.one_of(
    st.builds(s.EditCronJob, which, crons),
    st.builds(s.SuspendCronJob, which, st.booleans()),
    st.builds(s.DeleteCronRun, st.integers(0, 5)),
    st.builds(s.CreateCronJob, which, crons),
    st.builds(s.DeleteCronJob, which, st.sampled_from(["Background", "Foreground"])),
)
lags = fault_of(["lag"], st.sampled_from(["rayjobs.ray.io", "raycronjobs.ray.io"]))
writes = fault_of(["lost answer", "lost request", "straggling"], resources)
faults = st.one_of(
    lags,
    writes,
    fault_of(["cut", "reset", "gone", "late", "slow"], resources),
    fault_of(["429", "409", "already exists", "500", "503", "504"], resources),
    fault_of(["refused", "unreadable", "rewound"], st.just("")),
    st.builds(s.Compact),
    st.builds(s.Webhook, hooked, resources, st.sampled_from(["create", "patch", ""]), lasting),
)
single = st.builds(s.Step, delays, st.one_of(faults, own, restarts, writes, own, jumps)).map(
    lambda step: (step,)
)
together = st.one_of(
    st.tuples(lags, restarts),
    st.tuples(lags, writes, own),
    st.tuples(writes, own, restarts),
    st.tuples(late.map(lambda seconds: s.Fault("lag", "rayjobs.ray.io", 1, seconds, 30.0)), own),
)
lives_of_crons = st.builds(
    s.Scenario,
    surroundings,
    st.just(()),
    st.lists(st.one_of(single, single, storms(together)), min_size=3, max_size=MOST_STEPS).map(
        in_order
    ),
    crons=st.lists(crons, min_size=1, max_size=MOST_CRONS).map(tuple),
)

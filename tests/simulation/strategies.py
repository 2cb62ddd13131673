"""How hypothesis draws a scenario. The simplest choice comes first: examples shrink towards it."""

from __future__ import annotations

from itertools import chain

import msgspec
from hypothesis import strategies as st

from tests.simulation import scenario as s

MOST_CLUSTERS = 3
MOST_JOBS = 2
MOST_SERVICES = 2
MOST_WORKSPACES = 2
MOST_STEPS = 20
MOST_STEPS_WITH_JOBS = 12
MOST_STEPS_WITH_SERVICES = 12
MOST_STEPS_WITH_WORKSPACES = 12
MOST_ROLLING_CLUSTERS = 2
MOST_STEPS_WITH_ROLLING = 14
WATCHED = ("pods", "rayclusters.ray.io", "services", "")
CLAIMED = ("nodeclaims.karpenter.sh", "workspaces.kaito.sh", "nodes", "statefulsets.apps", "")

which = st.integers(0, MOST_CLUSTERS - 1)
group_number = st.integers(0, 2)
replicas = st.integers(0, 5)
delays = st.sampled_from([0.0, 0.05, 0.3, 1.0, 2.5, 6.0, 15.0])
storages = st.sampled_from(["", "", "redis", "rocksdb"])


@st.composite
def groups(draw: st.DrawFn, number: int | None = None) -> s.Group:
    least = draw(st.sampled_from([0, 0, 0, 1]))
    return s.Group(
        number=draw(group_number) if number is None else number,
        replicas=draw(replicas),
        least=least,
        most=least + draw(st.sampled_from([6, 3])),
        hosts=draw(st.sampled_from([1, 1, 1, 2, 3])),
    )


@st.composite
def clusters(draw: st.DrawFn) -> s.Cluster:
    count = draw(st.sampled_from([1, 1, 2, 0]))
    return s.Cluster(
        groups=tuple(draw(groups(number)) for number in range(count)),
        autoscaler=draw(st.sampled_from(["", "", "v1", "v2"])),
        recreate=draw(st.sampled_from([False, False, False, True])),
        storage=draw(storages),
    )


seldom = st.sampled_from([False, False, False, False, False, True])
amounts = st.sampled_from([1, 1, 2, "25%", "50%"])
rollings = st.one_of(
    st.builds(
        s.Rolling,
        surge=amounts,
        unavailable=st.sampled_from([0, 0, 1, "50%"]),
        parallel=st.sampled_from([1, 1, 2]),
        drain=st.sampled_from([30, 0, 5, 100]),
        deadline=st.sampled_from([600, 600, 20]),
        paused=seldom,
    ),
    st.builds(s.Rolling, st.just(0), amounts, drain=st.sampled_from([30, 0, 5]), paused=seldom),
)


@st.composite
def rolling_clusters(draw: st.DrawFn) -> s.Cluster:
    count = draw(st.sampled_from([1, 2]))
    autoscaler = draw(st.sampled_from(["", "", "", "v1", "v2"]))
    rolling = draw(rollings)
    rolled = (draw(groups(number)) for number in range(count))
    return s.Cluster(
        groups=tuple(msgspec.structs.replace(g, replicas=g.replicas or 3) for g in rolled),
        autoscaler=autoscaler,
        storage=draw(storages),
        rolling=rolling,
    )


@st.composite
def bounds(draw: st.DrawFn) -> s.Bound:
    least = draw(st.integers(0, 3))
    return s.Bound(draw(which), draw(group_number), least, least + draw(st.integers(0, 4)))


scalings = st.builds(s.Scale, which, group_number, replicas)
namings = st.builds(
    s.NameWorkers,
    which,
    group_number,
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    st.booleans(),
)
edits = st.one_of(
    bounds(),
    namings,
    st.builds(s.AddGroup, which, groups()),
    st.builds(s.RemoveGroup, which, group_number),
    st.builds(s.ChangeTemplate, which, st.integers(-1, 2), st.integers(1, 3)),
    st.builds(s.ChangeHosts, which, group_number, st.integers(1, 3)),
    st.builds(s.ChangeStrategy, which, st.booleans()),
    st.builds(s.Suspend, which, st.sampled_from([True, False, None])),
    st.builds(s.SuspendGroup, which, group_number, st.booleans()),
    st.builds(s.ChangeStorage, which, storages),
)
lives = st.one_of(
    st.builds(s.Delete, which, st.sampled_from(["Background", "Foreground"])),
    st.builds(s.Create, which, clusters()),
)
demands = st.builds(s.Demand, which, group_number, replicas)
accidents = st.one_of(
    st.builds(
        s.EndPod,
        st.integers(0, 9),
        st.sampled_from(["fail", "delete", "kill", "crash", "succeed", "replace"]),
    ),
    st.builds(s.LoseNode, st.integers(0, 1)),
    st.builds(s.RestoreNode, st.integers(0, 1)),
    st.builds(s.DeleteService, which),
)
restarts = st.builds(
    s.Restart,
    st.sampled_from(["kill", "before", "after", "stop"]),
    st.sampled_from([0.0, 0.0, 1.0, 10.0]),
)
late = st.sampled_from([0.1, 1.0, 5.0, 15.0, 31.0])
lasting = st.sampled_from([2.0, 10.0, 30.0])
often = st.sampled_from([1, 2, 3, 5])
hooked = st.sampled_from(["refuses", "fails", "hangs"])
hooked_resources = st.sampled_from(["services", "rayclusters.ray.io", "jobs.batch", ""])


def fault_of(kinds: list[str], resources: st.SearchStrategy[str]) -> st.SearchStrategy[s.Fault]:
    return st.builds(s.Fault, st.sampled_from(kinds), resources, often, late, lasting)


faults = st.one_of(
    fault_of(["lag"], st.sampled_from(WATCHED)),
    fault_of(["lost answer", "lost request", "straggling"], st.sampled_from(["pods", ""])),
    fault_of(["cut", "reset", "gone"], st.sampled_from(WATCHED)),
    fault_of(["late", "slow"], st.sampled_from(WATCHED)),
    fault_of(["429", "409", "already exists", "500", "503", "504"], st.sampled_from(["pods", ""])),
    fault_of(["refused", "unreadable"], st.just("")),
    st.builds(s.Compact),
)
webhooks = st.one_of(
    st.builds(s.Webhook, hooked, st.just("pods"), st.sampled_from(["create", "delete"]), lasting),
    st.builds(
        s.Webhook, hooked, hooked_resources, st.sampled_from(["create", "patch", ""]), lasting
    ),
)
rivals = st.builds(
    s.Rival,
    st.sampled_from(["labels", "service", "finalizers", "status"]),
    st.sampled_from([0.0, 0.3, 2.0]),
    lasting,
)
prunings = st.builds(
    s.Prune,
    st.sampled_from([
        "spec.workerGroupSpecs", "spec.workerGroupSpecs.numOfHosts", "status.conditions",
        "status.desiredCPU", "status.desiredWorkerReplicas", "status.observedGeneration",
    ]),
    lasting,
)  # fmt: skip
jumps = st.builds(s.ClockJump, st.sampled_from([5.0, 90.0, 36000.0, -5.0, -90.0, -36000.0]))
others = st.one_of(webhooks, rivals, prunings, jumps)
which_job = st.integers(0, MOST_JOBS - 1)
durations = st.sampled_from([1.0, 5.0, 20.0, 40.0])
fates = st.builds(
    s.Fate,
    st.sampled_from(["SUCCEEDED", "FAILED", "FAILED", "endless", "stuck"]),
    st.sampled_from([1.0, 0.0, 10.0]),
    durations,
)


@st.composite
def jobs(draw: st.DrawFn) -> s.Job:
    drawn = draw(st.lists(fates, min_size=1, max_size=3).map(tuple))
    ends = all(fate.ends for fate in drawn)
    mode = draw(st.sampled_from(["HTTPMode", "HTTPMode", "K8sJobMode", "SidecarMode"]))
    shutdown = draw(st.sampled_from([True, True, False]))
    return s.Job(
        mode=mode,
        backoff=draw(st.sampled_from([0, 1, 2])),
        fates=drawn,
        workers=draw(st.sampled_from([0, 0, 1])),
        shutdown=shutdown,
        ttl=draw(st.sampled_from([0, 0, 20])) if shutdown else 0,
        deadline=draw(st.sampled_from([0, 0, 0, 30, 90] if ends else [30, 60, 90])),
        pre_running=draw(st.sampled_from([0, 0, 5, 30])),
        submitter_fails=mode == "K8sJobMode" and draw(st.sampled_from([False, False, False, True])),
    )


ray_troubles = [
    "late", "loses answers", "silent", "refuses", "error", "error json", "html", "truncated",
    "forbidden",
]  # fmt: skip
trouble_lasts = st.sampled_from([5.0, 20.0, 70.0])
ray_faults = st.builds(s.RayFault, st.sampled_from(ray_troubles), trouble_lasts)
serve_faults = st.builds(
    s.RayFault, st.sampled_from([*ray_troubles, "unhealthy", "deploy failed"]), trouble_lasts
)
rolling_one = st.sampled_from([0, 0, 0, 1])
pod_edits = st.builds(
    s.EditPods,
    rolling_one,
    st.sampled_from([-2, -2, 0, 1, -1]),
    st.integers(1, 3),
    st.sampled_from(["ray", "ray", "gpu", "own"]),
)
strategy_edits = st.builds(
    s.ChangeRolling, rolling_one, st.one_of(rollings, rollings, rollings, st.none())
)
rolling_lives = st.one_of(
    strategy_edits,
    strategy_edits,
    st.builds(s.Create, st.just(1), rolling_clusters()),
    st.builds(s.Delete, rolling_one, st.sampled_from(["Background", "Foreground"])),
)
job_lives = st.one_of(
    st.builds(s.SuspendJob, which_job, st.sampled_from([True, False])),
    st.builds(s.CreateJob, which_job, jobs()),
    st.builds(s.DeleteJob, which_job, st.sampled_from(["Background", "Foreground"])),
    st.builds(s.DeleteJobCluster, which_job),
    st.builds(s.LoseRayJobs),
)
which_service = st.integers(0, MOST_SERVICES - 1)
incremental = "NewClusterWithIncrementalUpgrade"
services = st.builds(
    s.RayService,
    config=st.integers(0, 2),
    image=st.sampled_from([0, 0, 1, 2]),
    workers=st.sampled_from([1, 0, 2]),
    upgrade=st.sampled_from(["NewCluster", "NewCluster", incremental, incremental, "None"]),
    delay=st.sampled_from([5, 0, 30]),
)
service_edits = st.builds(s.EditRayService, which_service, services)
service_lives = st.one_of(
    st.builds(s.SuspendRayService, which_service, st.sampled_from([True, False])),
    st.builds(s.CreateRayService, which_service, services),
    st.builds(s.DeleteRayService, which_service, st.sampled_from(["Background", "Foreground"])),
    st.builds(s.DeleteRayServiceCluster, which_service, st.sampled_from(["active", "pending"])),
    st.builds(s.LoseServe),
)
job_lags = st.builds(
    s.Fault,
    st.just("lag"),
    st.sampled_from(["rayjobs.ray.io", "rayclusters.ray.io"]),
    st.just(1),
    late,
    lasting,
)
job_writes = fault_of(
    ["lost answer", "lost request", "straggling", "409", "503"],
    st.sampled_from(["rayjobs.ray.io", "rayclusters.ray.io", "jobs.batch"]),
)
service_kinds = st.sampled_from(["rayservices.ray.io", "rayclusters.ray.io", "services"])
service_lags = st.builds(s.Fault, st.just("lag"), service_kinds, st.just(1), late, lasting)
service_writes = fault_of(
    ["lost answer", "lost request", "straggling", "409", "503"], service_kinds
)
actions = st.one_of(scalings, faults, demands, accidents, edits, restarts, faults, lives, others)
job_actions = st.one_of(
    ray_faults, job_lives, restarts, accidents, job_lags, job_writes, faults, job_lives, others
)
service_actions = st.one_of(
    service_edits, serve_faults, service_lives, restarts, accidents, service_lags, service_writes,
    faults, service_edits, others,
)  # fmt: skip
rolling_actions = st.one_of(
    pod_edits, faults, ray_faults, pod_edits, accidents, restarts, rolling_lives, faults, pod_edits,
    edits, scalings, demands, others,
)  # fmt: skip
single_rolling_steps = st.builds(s.Step, delays, rolling_actions).map(lambda step: (step,))
single_steps = st.builds(s.Step, delays, actions).map(lambda step: (step,))
single_job_steps = st.builds(s.Step, delays, job_actions).map(lambda step: (step,))
single_service_steps = st.builds(s.Step, delays, service_actions).map(lambda step: (step,))
lags = st.builds(s.Fault, st.just("lag"), st.just("pods"), st.just(1), late, lasting)
pods_gone = st.builds(s.Fault, st.just("gone"), st.just("pods"), often, late, lasting)
at_pods = fault_of(["lost answer", "lost request", "straggling"], st.just("pods"))
together = st.one_of(  # misfortunes that seldom come alone
    st.tuples(lags, restarts),
    st.tuples(lags, at_pods, scalings),
    st.tuples(st.builds(s.Fault, st.just("rewound"), lasts=lasting), pods_gone, accidents),
)
job_together = st.one_of(
    st.tuples(job_lags, restarts),
    st.tuples(lags, accidents, restarts),
    st.tuples(ray_faults, accidents),
    st.tuples(job_writes, job_lives),
)

rolling_together = st.one_of(
    st.tuples(lags, restarts),
    st.tuples(lags, at_pods, pod_edits),
    st.tuples(pod_edits, accidents),
    st.tuples(pod_edits, scalings),
    st.tuples(lags, pod_edits, pod_edits),
)
service_together = st.one_of(
    st.tuples(service_lags, restarts),
    st.tuples(service_edits, accidents),
    st.tuples(service_edits, serve_faults, restarts),
    st.tuples(service_writes, service_edits),
    st.tuples(service_lags, service_edits, service_edits),
)

which_workspace = st.integers(0, MOST_WORKSPACES - 1)
claim_fates = st.builds(
    s.ClaimFate,
    st.sampled_from(["ready", "ready", "without plugin", "stock-out", "given up", "lost"]),
    st.sampled_from([2.0, 10.0, 60.0]),
)
workspaces = st.builds(
    s.Workspace, st.sampled_from([1, 1, 2, 3]), st.lists(claim_fates, max_size=4).map(tuple)
)
workspace_lives = st.one_of(
    st.builds(s.LoseClaim, st.integers(0, 5)),
    st.builds(s.LoseClaim, st.integers(0, 5)),
    st.builds(s.DeleteWorkspace, which_workspace),
    st.builds(s.CreateWorkspace, which_workspace, workspaces),
)
workspace_lags = fault_of(["lag"], st.sampled_from(CLAIMED))
workspace_faults = st.one_of(
    workspace_lags,
    fault_of(["lost answer", "lost request", "straggling"], st.sampled_from(CLAIMED)),
    fault_of(["cut", "reset", "gone", "late", "slow"], st.sampled_from(CLAIMED)),
    fault_of(["429", "409", "already exists", "500", "503", "504"], st.sampled_from(CLAIMED)),
    fault_of(["refused", "unreadable"], st.just("")),
    st.builds(s.Compact),
    st.builds(
        s.Webhook,
        hooked,
        st.sampled_from(CLAIMED),
        st.sampled_from(["create", "patch", "delete", ""]),
        lasting,
    ),
)
single_workspace_steps = st.builds(
    s.Step, delays, st.one_of(workspace_lives, workspace_faults, workspace_faults, restarts)
).map(lambda step: (step,))
workspace_together = st.one_of(
    st.tuples(workspace_lags, restarts),
    st.tuples(workspace_lags, workspace_lives),
    st.tuples(workspace_faults, workspace_lives, restarts),
)


@st.composite
def storms(draw: st.DrawFn, of: st.SearchStrategy[tuple[s.AnyAction, ...]]) -> tuple[s.Step, ...]:
    """Several actions at once."""
    first, *others = draw(of)
    return (s.Step(draw(delays), first), *(s.Step(0.0, other) for other in others))


steps = st.one_of(single_steps, single_steps, single_steps, storms(together))
job_steps = st.one_of(single_job_steps, single_job_steps, single_job_steps, storms(job_together))
service_steps = st.one_of(
    single_service_steps, single_service_steps, single_service_steps, storms(service_together)
)
workspace_steps = st.one_of(
    single_workspace_steps, single_workspace_steps, storms(workspace_together)
)
rolling_steps = st.one_of(
    single_rolling_steps, single_rolling_steps, single_rolling_steps, storms(rolling_together)
)
surroundings = st.builds(
    s.Surroundings,
    seed=st.integers(0, 999),
    start=st.sampled_from([0.1, 1.0, 4.0]),
    ready=st.sampled_from([0.1, 1.0, 4.0]),
    termination=st.sampled_from([0.1, 1.0, 12.0]),
    eviction=st.sampled_from([10.0, 40.0]),
    collector_lag=st.sampled_from([0.0, 3.0, 12.0]),
    past=st.sampled_from([0, 5, 20, 40]),
    streaming=st.booleans().map(lambda old: not old),
)


first_updates = st.builds(
    s.EditPods, st.just(0), st.just(-2), st.integers(1, 3), st.sampled_from(["ray", "gpu", "own"])
).map(lambda edit: s.Step(15.0, edit))


def _begun(first: s.Step, drawn: list[tuple[s.Step, ...]]) -> tuple[s.Step, ...]:
    return (first, *in_order(drawn))


def in_order(drawn: list[tuple[s.Step, ...]]) -> tuple[s.Step, ...]:
    return tuple(chain(*drawn))


lives_of_clusters = st.builds(
    s.Scenario,
    surroundings,
    st.lists(clusters(), min_size=1, max_size=MOST_CLUSTERS).map(tuple),
    st.lists(steps, min_size=4, max_size=MOST_STEPS).map(in_order),
)
lives_of_jobs = st.builds(
    s.Scenario,
    surroundings,
    st.lists(clusters(), min_size=0, max_size=1).map(tuple),
    st.lists(job_steps, min_size=3, max_size=MOST_STEPS_WITH_JOBS).map(in_order),
    st.lists(jobs(), min_size=1, max_size=MOST_JOBS).map(tuple),
)
lives_of_services = st.builds(
    s.Scenario,
    surroundings,
    st.lists(clusters(), min_size=0, max_size=1).map(tuple),
    st.lists(service_steps, min_size=3, max_size=MOST_STEPS_WITH_SERVICES).map(in_order),
    services=st.lists(services, min_size=1, max_size=MOST_SERVICES).map(tuple),
)
lives_of_workspaces = st.builds(
    s.Scenario,
    surroundings,
    st.just(()),
    st.lists(workspace_steps, min_size=3, max_size=MOST_STEPS_WITH_WORKSPACES).map(in_order),
    workspaces=st.lists(workspaces, min_size=1, max_size=MOST_WORKSPACES).map(tuple),
)
lives_of_rolling = st.builds(
    s.Scenario,
    surroundings,
    st.lists(rolling_clusters(), min_size=1, max_size=MOST_ROLLING_CLUSTERS).map(tuple),
    st.builds(
        _begun, first_updates, st.lists(rolling_steps, min_size=3, max_size=MOST_STEPS_WITH_ROLLING)
    ),
    drains=st.builds(
        s.Fate,
        st.sampled_from(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "stuck"]),
        st.sampled_from([1.0, 0.0, 10.0]),
        st.sampled_from([2.0, 20.0]),
    ),
    work=st.sampled_from([0.0, 0.0, 10.0, 60.0]),
)
scenarios = st.one_of(lives_of_clusters, lives_of_jobs, lives_of_services, lives_of_rolling)

"""Remembered bad luck: lives that chance seldom draws, each named by what must be survived.

Each is there for one guard of the operator, or one excuse of the referee, and goes wrong when
that is removed.
"""

from __future__ import annotations

from tests.simulation.scenario import (
    Bound,
    ChangeHosts,
    ChangeRolling,
    ChangeStorage,
    ChangeStrategy,
    ClockJump,
    Cluster,
    Compact,
    CreateJob,
    CronJob,
    Delete,
    DeleteJobCluster,
    DeleteLease,
    DeleteRayService,
    DeleteRayServiceCluster,
    EditPods,
    EditRayService,
    EndPod,
    Evict,
    Fate,
    Fault,
    Group,
    Job,
    LoseNode,
    LoseRayJobs,
    Prune,
    RayFault,
    RayService,
    Restart,
    RestoreDatabase,
    Rival,
    Rolling,
    Scale,
    Scenario,
    Step,
    Surroundings,
    Suspend,
    SuspendJob,
    Use,
    Webhook,
)

TWO_WORKERS = Cluster((Group(0, 2),))
ONE_WORKER = Cluster((Group(0, 1),))
NO_WORKERS = Cluster((Group(0, 0),))
ONLY_HEAD = Cluster()

FAILS_ONCE = Job(backoff=1, fates=(Fate("FAILED", running=20.0), Fate(running=5.0)))

STEPWISE = RayService(config=1, image=1, upgrade="NewClusterWithIncrementalUpgrade")

LAG = Fault("lag", "pods", seconds=5.0, lasts=20.0)

BAD_LUCK = {
    "while creates have no answer, other pods move time on": Scenario(
        Surroundings(start=1.0, ready=1.0),
        (NO_WORKERS, NO_WORKERS),
        (
            Step(6.0, LAG),
            Step(0.0, Scale(1, 0, 3)),
            Step(4.0, Fault("lost answer", "pods", lasts=15.0)),
            Step(0.0, Scale(0, 0, 2)),
            Step(1.5, Scale(0, 0, 3)),
        ),
    ),
    "the first list of an operator is old, and what it lacks comes late": Scenario(
        Surroundings(past=20, streaming=False),
        (NO_WORKERS,),
        (Step(8.0, Scale(0, 0, 2)), Step(3.0, LAG), Step(0.0, Restart("kill"))),
    ),
    "a submitter brings its job to the next head while no operator is there": Scenario(
        Surroundings(start=4.0),
        (),
        (Step(6.0, EndPod(0, "replace")), Step(0.0, Restart("kill", 15.0))),
        jobs=(Job("K8sJobMode"),),
    ),
    "a head is replaced before the submitter is started": Scenario(
        Surroundings(start=4.0),
        (),
        (Step(6.0, EndPod(0, "replace")), Step(2.0, EndPod(0, "crash"))),
        jobs=(Job("K8sJobMode"),),
    ),
    "a head is killed just before Recreate, whose plan still sees it": Scenario(
        Surroundings(streaming=False),
        (Cluster((Group(0, 3),), recreate=True, storage="redis"),),
        (
            Step(10.0, Fault("lag", "rayclusters.ray.io", seconds=15.0, lasts=30.0)),
            Step(0.0, ChangeStorage(0, "")),
            Step(14.9, Fault("lag", "pods", seconds=5.0, lasts=10.0)),
            Step(0.05, EndPod(3, "kill")),
        ),
    ),
    "a deleted head takes long to go": Scenario(
        Surroundings(termination=12.0),
        (ONLY_HEAD,),
        (Step(5.0, EndPod(0, "delete")),),
    ),
    "the repetition of a lost create finds its pod, which the cache does not show yet": Scenario(
        Surroundings(),
        (NO_WORKERS,),
        (
            Step(5.0, LAG),
            Step(0.0, Fault("lost answer", "pods", lasts=0.3)),
            Step(0.0, Scale(0, 0, 1)),
        ),
    ),
    "a pod that has failed is replaced under its name before the operator deletes it": Scenario(
        Surroundings(),
        (ONE_WORKER,),
        (
            Step(5.0, LAG),
            Step(0.0, EndPod(0, "fail")),
            Step(3.0, EndPod(0, "replace")),
        ),
    ),
    "the next operator cannot see the head, because its label was taken off": Scenario(
        Surroundings(),
        (ONLY_HEAD,),
        (Step(8.0, EndPod(0, "hide")), Step(2.0, Restart("kill")), Step(9.0, Compact())),
    ),
    "a cache is filled again from an older state than it had": Scenario(
        Surroundings(streaming=False),
        (TWO_WORKERS,),
        (
            Step(10.0, Scale(0, 0, 0)),
            Step(5.0, Fault("rewound", lasts=10.0)),
            Step(0.0, Fault("gone", "pods", lasts=10.0)),
            Step(0.0, EndPod(0, "crash")),
        ),
    ),
    "a worker loses its label before the cache has shown it": Scenario(
        Surroundings(streaming=False),
        (NO_WORKERS,),
        (
            Step(5.0, Fault("lag", "pods", seconds=3.0, lasts=20.0)),
            Step(0.0, Scale(0, 0, 1)),
            Step(1.0, EndPod(0, "hide")),
            Step(0.0, Fault("gone", "pods", lasts=4.0)),
            Step(9.0, Compact()),
        ),
    ),
    "creates get lost on their way": Scenario(
        Surroundings(),
        (NO_WORKERS,),
        (Step(5.0, Fault("lost request", "pods", lasts=1.0)), Step(0.0, Scale(0, 0, 2))),
    ),
    "Ray has taken a job, its answer is lost, and so is the operator": Scenario(
        Surroundings(),
        (),
        (
            Step(0.0, RayFault("late", lasts=20.0)),
            Step(3.5, RayFault("loses answers", lasts=10.0)),
            Step(3.0, Restart("kill", pause=1.0)),
        ),
        (FAILS_ONCE,),
    ),
    "the head of a job is killed while the job runs on it": Scenario(
        Surroundings(),
        (),
        (Step(10.0, EndPod(0, "kill")),),
        (FAILS_ONCE,),
    ),
    "the Ray of a head exits, and starts again in the same pod": Scenario(
        Surroundings(),
        (),
        (Step(10.0, EndPod(0, "crash")), Step(9.0, Compact())),
        (FAILS_ONCE,),
    ),
    "a job is suspended while the cluster of its failed attempt goes": Scenario(
        Surroundings(),
        (),
        (
            Step(20.0, Fault("lag", "rayclusters.ray.io", seconds=10.0, lasts=20.0)),
            Step(5.0, SuspendJob(0, suspend=True)),
            Step(20.0, SuspendJob(0, suspend=False)),
        ),
        (FAILS_ONCE,),
    ),
    "a job fails as often as it may, its cluster stays, and another operator comes": Scenario(
        Surroundings(),
        (),
        (Step(30.0, Restart("kill")), Step(5.0, Compact())),
        (Job(backoff=1, fates=(Fate("FAILED"),), shutdown=False),),
    ),
    "nothing of a job is seen for half a minute, and the operator is killed": Scenario(
        Surroundings(),
        (),
        (
            Step(20.0, Fault("lag", "rayjobs.ray.io", seconds=15.0, lasts=20.0)),
            Step(4.0, Restart("after")),
        ),
        (FAILS_ONCE,),
    ),
    "the node of a job's head is cut off for as long as a head may be silent": Scenario(
        Surroundings(),
        (),
        (
            Step(0.0, RayFault("late", lasts=11.0)),
            Step(6.0, LoseNode(0)),
            Step(15.0, Restart("kill")),
            Step(45.0, LoseNode(0)),
        ),
        (Job(fates=(Fate(running=1.0),)),),
    ),
    "the clock jumps ahead while the dashboard is silent": Scenario(
        Surroundings(),
        (),
        (
            Step(12.0, RayFault("silent", lasts=20.0)),
            Step(12.0, ClockJump(36000.0)),
            Step(20.0, Compact()),
        ),
        (Job(fates=(Fate(running=60.0),)),),
    ),
    "the clock jumps ahead, the operator is killed, and the dashboard is silent": Scenario(
        Surroundings(),
        (),
        (
            Step(12.0, RayFault("silent", lasts=50.0)),
            Step(12.0, Restart("kill")),
            Step(10.0, ClockJump(36000.0)),
            Step(30.0, Compact()),
        ),
        (Job(fates=(Fate(running=90.0),)),),
    ),
    "the head forgets a job whose acceptance the killed operator could not record": Scenario(
        Surroundings(start=1.0, ready=4.0),
        (),
        (
            Step(6.0, Fault("lost answer", "rayjobs.ray.io", lasts=2.0)),
            Step(0.3, Restart("kill", 10.0)),
            Step(0.0, LoseRayJobs()),
        ),
        (Job(fates=(Fate(running=20.0),)),),
    ),
    "a head is made while the definition lacks groups, which are written again": Scenario(
        Surroundings(start=0.1, ready=0.1),
        (Cluster((Group(0, 0),), recreate=True),),
        (Step(0.0, Prune("spec.workerGroupSpecs")),),
    ),
    "a job is stopped for its deadline, and then the clock is put right": Scenario(
        Surroundings(),
        (),
        (
            Step(15.0, RayFault("late", lasts=5.0)),
            Step(0.0, Fault("lag", "rayjobs.ray.io", seconds=0.1, lasts=2.0)),
            Step(0.0, Restart("kill")),
            Step(0.0, ClockJump(90.0)),
        ),
        (Job(fates=(Fate(running=40.0),), deadline=90),),
    ),
    "a webhook refuses pods for five minutes, in other words each time": Scenario(
        Surroundings(),
        (ONE_WORKER,),
        (Step(5.0, Webhook("refuses", lasts=300.0)), Step(0.0, Scale(0, 0, 4))),
    ),
    "another controller changes the selector of a service back at once": Scenario(
        Surroundings(),
        (ONLY_HEAD,),
        (Step(10.0, Rival("service", lasts=20.0)),),
    ),
    "another controller takes off the finalizer that cleans up Redis": Scenario(
        Surroundings(),
        (Cluster(storage="redis"),),
        (Step(10.0, Rival("finalizers", lasts=20.0)),),
    ),
    "another controller writes its own state of a cluster": Scenario(
        Surroundings(),
        (ONLY_HEAD,),
        (Step(10.0, Rival("status", lasts=20.0)),),
    ),
    "a definition without worker groups is there for a while, and a worker fails": Scenario(
        Surroundings(),
        (TWO_WORKERS,),
        (Step(10.0, Prune("spec.workerGroupSpecs", 20.0)), Step(3.0, EndPod(2, "fail"))),
    ),
    "a definition drops the hosts of replicas, and is put back before they are": Scenario(
        Surroundings(),
        (Cluster((Group(0, 2), Group(1, 1, hosts=2))),),
        (Step(10.0, Prune("spec.workerGroupSpecs.numOfHosts", 20.0)), Step(3.0, Scale(0, 0, 3))),
    ),
    "an autoscaled group grows by single pods while a definition drops the hosts": Scenario(
        Surroundings(),
        (Cluster((Group(0, 0, hosts=3),), autoscaler="v1"),),
        (Step(10.0, Prune("spec.workerGroupSpecs.numOfHosts", 6.0)), Step(1.0, Scale(0, 0, 1))),
    ),
    "a group is emptied, its definition is dropped, and the operator is killed at once": Scenario(
        Surroundings(),
        (ONE_WORKER,),
        (
            Step(5.0, LAG),
            Step(0.0, Scale(0, 0, 0)),
            Step(0.0, Prune("spec.workerGroupSpecs", 2.0)),
            Step(0.0, Restart("kill")),
        ),
    ),
    "somebody edits a cluster just after a definition has dropped its groups": Scenario(
        Surroundings(),
        (TWO_WORKERS,),
        (
            Step(10.0, Prune("spec.workerGroupSpecs", 20.0)),
            Step(0.0, ChangeStorage(0, "redis")),
        ),
    ),
    "an operator lists clusters without their groups, and learns of the definition later": Scenario(
        Surroundings(past=5),
        (TWO_WORKERS,),
        (
            Step(10.0, Restart("kill", pause=1.0)),
            Step(0.0, Scale(0, 0, 4)),
            Step(0.0, Prune("spec.workerGroupSpecs", 10.0)),
            Step(0.0, Fault("lag", "pods", seconds=31.0, lasts=30.0)),
        ),
    ),
    "an edit is read by a definition without the number of hosts, which is soon put back": Scenario(
        Surroundings(),
        (Cluster((Group(0, 1, hosts=3),)),),
        (Step(10.0, Prune("spec.workerGroupSpecs.numOfHosts", 2.0)), Step(0.0, Bound(0, 0, 0, 4))),
    ),
    "a replica is to have fewer hosts, and the operator is killed while it deletes them": Scenario(
        Surroundings(),
        (Cluster((Group(0, 1, hosts=3),)),),
        (
            Step(10.0, Restart("after", pause=1.0)),
            Step(0.0, ChangeHosts(0, 0, 2)),
            Step(6.0, Compact()),
        ),
    ),
    "a head fails while workers are still to be replaced": Scenario(
        Surroundings(),
        (Cluster((Group(0, 2),), storage="rocksdb", rolling=Rolling()),),
        (Step(10.0, EditPods(0, -2, 1)), Step(0.0, EndPod(2, "fail")), Step(5.0, Compact())),
    ),
    "the active cluster is deleted in an incremental upgrade": Scenario(
        Surroundings(start=1.0, ready=1.0),
        (),
        (
            Step(15.0, EditRayService(0, STEPWISE)),
            Step(1.0, DeleteRayServiceCluster(0, "active")),
        ),
        services=(RayService(),),
    ),
    "a rolling update becomes a recreation while a worker drains and answers are lost": Scenario(
        Surroundings(),
        (Cluster((Group(0, 3, hosts=2),), rolling=Rolling(surge=0, unavailable=1)),),
        (
            Step(10.0, EditPods(0, -2, 1)),
            Step(0.0, Fault("lost answer", "pods", 1, 1.0, 30.0)),
            Step(0.0, Fault("lag", "pods", 1, 15.0, 5.0)),
            Step(6.0, ChangeStrategy(0, recreate=True)),
        ),
        work=20.0,
    ),
    "a head with a sidecar is ready and lost before the operator sees it": Scenario(
        Surroundings(start=0.1, ready=0.1, termination=0.1),
        (),
        (
            Step(0.0, RayFault("late", lasts=5.0)),
            Step(0.3, Fault("lost request", "rayjobs.ray.io", lasts=2.0)),
            Step(0.3, Fault("lag", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, EndPod(0, "fail")),
            Step(0.0, Restart("kill", pause=0.0)),
        ),
        jobs=(Job("SidecarMode"),),
    ),
    "a head never answers, and takes a job all the same": Scenario(
        Surroundings(start=4.0, ready=0.1, termination=0.1),
        (),
        (
            Step(0.0, RayFault("loses answers", lasts=70.0)),
            Step(15.0, Fault("refused", seconds=0.1, lasts=30.0)),
        ),
        jobs=(Job("K8sJobMode", fates=(Fate("endless"),), deadline=90),),
    ),
    "an edit is taken back while a pod of it is created without an answer": Scenario(
        Surroundings(start=0.1, ready=0.1, termination=0.1),
        (Cluster((Group(0, 3),), rolling=Rolling(unavailable="50%", drain=0)),),
        (
            Step(15.0, EditPods(0, -2, 1)),
            Step(15.0, EditPods(0, -2, 2)),
            Step(1.0, Fault("lag", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, Fault("lost answer", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, EditPods(0, -2, 1)),
        ),
    ),
    "a replica loses hosts again and again, and the last one lost stays": Scenario(
        Surroundings(start=0.1, ready=0.1, termination=0.1),
        (Cluster((Group(0, 2, hosts=2),)),),
        (
            Step(12.0, EndPod(1, "fail")),
            Step(6.0, EndPod(1, "fail")),
            Step(6.0, EndPod(1, "fail")),
        ),
    ),
    "a head has come and gone since the list with which an operator starts": Scenario(
        Surroundings(start=1.0, ready=0.1, termination=0.1, past=20, streaming=False),
        (Cluster(autoscaler="v1"),),
        (
            Step(0.3, Fault("rewound", lasts=2.0)),
            Step(0.0, Fault("gone", "pods", lasts=2.0)),
            Step(0.0, EndPod(0, "fail")),
            Step(2.5, Fault("lag", "pods", seconds=5.0, lasts=2.0)),
            Step(0.0, Restart("kill", pause=0.0)),
        ),
    ),
    "a cluster that is recreated is edited while its definition lacks the groups": Scenario(
        Surroundings(start=0.1, ready=0.1, termination=0.1),
        (Cluster((Group(0, 0),), recreate=True),),
        (
            Step(5.0, Prune("spec.workerGroupSpecs", lasts=10.0)),
            Step(2.0, Suspend(0, suspend=False)),
        ),
    ),
    "no gateway was made yet when the strategy of an upgrade changes": Scenario(
        Surroundings(start=1.0, ready=1.0),
        (),
        (
            Step(15.0, EditRayService(0, STEPWISE)),
            Step(0.05, Restart("after", pause=2.0)),
            Step(1.0, EditRayService(0, RayService(config=1, image=1))),
        ),
        services=(RayService(),),
    ),
    "one host of a drained replica goes before the others, and the next group begins": Scenario(
        Surroundings(start=1.0, ready=1.0, termination=1.0),
        (
            Cluster(
                (Group(0, 1, hosts=3), Group(1, 3)),
                rolling=Rolling(surge="50%", unavailable=1, drain=5),
            ),
        ),
        (
            Step(15.0, EditPods(0, -2, 3)),
            Step(0.05, Fault("lost answer", seconds=0.1, lasts=30.0)),
        ),
    ),
    "a pod has come and gone with its cluster when its create is repeated": Scenario(
        Surroundings(seed=24, start=1.0, ready=1.0, termination=12.0, past=5, streaming=False),
        (
            Cluster((Group(0, 4, hosts=2), Group(1, 2, hosts=2)), autoscaler="v1", recreate=True),
            Cluster((Group(0, 4),), autoscaler="v2", storage="rocksdb"),
            Cluster(autoscaler="v1", storage="redis"),
        ),
        (
            Step(0.0, LoseNode(0)),
            Step(0.0, Fault("gone", "pods", every=3, seconds=31.0, lasts=10.0)),
            Step(0.0, LoseNode(1)),
            Step(15.0, Fault("lag", "pods", seconds=15.0, lasts=10.0)),
            Step(0.0, Fault("lost answer", "pods", seconds=5.0, lasts=2.0)),
            Step(0.0, Scale(1, 2, 5)),
            Step(1.0, Delete(1, "Background")),
        ),
    ),
    "a list shows neither that a cluster came nor that it went, and its job waits for its end": (
        Scenario(
            Surroundings(start=4.0, ready=4.0, streaming=False),
            (),
            (
                Step(1.0, Fault("503", "rayjobs.ray.io", seconds=31.0, lasts=10.0)),
                Step(
                    0.0,
                    CreateJob(
                        1,
                        Job(
                            "SidecarMode",
                            backoff=1,
                            fates=(Fate("endless", pending=10.0), Fate("stuck", pending=10.0)),
                            deadline=30,
                            pre_running=5,
                        ),
                    ),
                ),
                Step(0.0, Fault("lag", "rayclusters.ray.io", seconds=31.0, lasts=30.0)),
                Step(6.0, Prune("spec.workerGroupSpecs.numOfHosts", lasts=30.0)),
            ),
        )
    ),
    "a definition drops the hosts of the group that is being replaced": Scenario(
        Surroundings(start=1.0, ready=1.0, termination=0.1),
        (Cluster((Group(0, 2, hosts=2), Group(1, 1)), rolling=Rolling(surge=0, unavailable=1)),),
        (
            Step(6.0, EditPods(0, -2, 2)),
            Step(6.0, Prune("spec.workerGroupSpecs.numOfHosts", lasts=2.0)),
        ),
        drains=Fate("stuck"),
    ),
    "a job ends while the clock is ahead, and its cluster has a time to live": Scenario(
        Surroundings(start=1.0, ready=4.0),
        (),
        (Step(0.3, ClockJump(36000.0)), Step(15.0, RayFault("loses answers", lasts=70.0))),
        jobs=(Job("HTTPMode", fates=(Fate("endless"),), shutdown=True, ttl=20, deadline=60),),
    ),
    "a job begins while the clock is ahead, and has a deadline": Scenario(
        Surroundings(),
        (),
        (Step(0.0, ClockJump(36000.0)), Step(15.0, Compact())),
        jobs=(Job("HTTPMode", fates=(Fate("endless"),), deadline=60),),
    ),
    "a worker begins to drain while the clock is ahead, and its work has no end": Scenario(
        Surroundings(start=1.0, ready=1.0),
        (Cluster((Group(0, 1),), rolling=Rolling(drain=30)),),
        (Step(10.0, ClockJump(36000.0)), Step(0.0, EditPods(0, -2, 1)), Step(10.0, Compact())),
        drains=Fate("endless"),
        work=36000.0,
    ),
    "a job ends while its status still names who has changed the service of its head": Scenario(
        Surroundings(seed=733, start=1.0, ready=1.0, termination=12.0, collector_lag=12.0),
        (Cluster((Group(0, 1),), autoscaler="v2"),),
        (Step(12.1, Rival("service", 0.3, 30.0)),),
        jobs=(Job("K8sJobMode", 2, (Fate("stuck"),), ttl=20, deadline=90, pre_running=5),),
    ),
    "a service turns back while a create of its pending cluster is without an answer": Scenario(
        Surroundings(seed=820, start=1.0, ready=4.0, termination=12.0, collector_lag=12.0),
        (),
        (
            Step(32.0, Fault("lag", "rayclusters.ray.io", seconds=5.0, lasts=30.0)),
            Step(0.0, Restart("kill", 10.0)),
            Step(6.05, RayFault("html", lasts=20.0)),
            Step(2.8, Fault("503", "rayclusters.ray.io", seconds=31.0, lasts=30.0)),
            Step(
                0.0,
                EditRayService(
                    0,
                    RayService(1, workers=0, upgrade="NewClusterWithIncrementalUpgrade", delay=30),
                ),
            ),
            Step(17.8, EditRayService(0, RayService(2, 2, workers=0, upgrade="None", delay=30))),
        ),
        services=(RayService(1, 2, workers=2, upgrade="NewCluster", delay=30),),
    ),
    "a worker of an autoscaled cluster is copied under its name while the operator replaces it": (
        Scenario(
            Surroundings(seed=999, start=0.1, ready=4.0, termination=12.0, past=20),
            (Cluster((Group(0, 2, 1, 4),), autoscaler="v2"),),
            (
                Step(2.5, DeleteRayService(0, "Background")),
                Step(7.6, EndPod(6, "replace")),
                Step(1.05, LoseNode(1)),
                Step(15.0, EndPod(6, "replace")),
            ),
            services=(RayService(1, 1, 0, upgrade="NewClusterWithIncrementalUpgrade", delay=5),),
        )
    ),
    "a drain is begun anew after a clock has gone back, while the update is paused": Scenario(
        Surroundings(seed=308, start=4.0, ready=1.0, eviction=40.0, past=5, streaming=False),
        (
            Cluster(
                (Group(0, 2, 1, 4), Group(1, 3, 1, 7, hosts=2)),
                autoscaler="v1",
                rolling=Rolling(surge=1, unavailable=0),
            ),
        ),
        (
            Step(15.0, EditPods(0, -2, 1, "gpu")),
            Step(15.0, Fault("cut", "pods", seconds=31.0, lasts=30.0)),
            Step(0.35, Restart("kill", 10.0)),
            Step(15.3, ClockJump(-90.0)),
            Step(0.6, Restart("after")),
            Step(15.3, ChangeRolling(0, Rolling(2, 0, parallel=2, drain=0, paused=True))),
            Step(15.0, RayFault("silent", lasts=70.0)),
        ),
        drains=Fate("stuck", 1.0, 2.0),
    ),
    "a worker drains to its end although the update was given up, before another one is ready": (
        Scenario(
            Surroundings(
                seed=228, ready=4.0, termination=12.0, collector_lag=3.0, past=20, streaming=False
            ),
            (
                Cluster(
                    (Group(0, 3, 1, 7), Group(1, 3, 0, 6, hosts=2)),
                    rolling=Rolling(surge=0, unavailable=2),
                ),
            ),
            (
                Step(15.0, EditPods(0, -2, 2, "gpu")),
                Step(4.5, ChangeRolling(0, None)),
                Step(6.0, Fault("lag", "pods", seconds=15.0, lasts=2.0)),
                Step(0.0, Restart("before")),
                Step(15.3, EditPods(0, -1, 2, "own")),
                Step(1.6, Fault("lag", "pods", seconds=31.0, lasts=10.0)),
                Step(0.0, Restart("after", 1.0)),
            ),
            drains=Fate("SUCCEEDED", 0.0, 2.0),
            work=10.0,
        )
    ),
    "an autoscaler names a worker just after its group was replaced": Scenario(
        Surroundings(seed=0, ready=4.0, termination=1.0),
        (
            Cluster(
                (Group(0, 3, 0, 6), Group(1, 3, 0, 6)),
                autoscaler="v2",
                rolling=Rolling(surge="50%", unavailable=0),
            ),
        ),
        (
            Step(15.0, EditPods(0, -2, 1, "ray")),
            Step(0.3, Scale(0, 0, 0)),
        ),
        drains=Fate("SUCCEEDED", 10.0, 20.0),
    ),
    "a replica that drains goes whole, although only one of its hosts was told to": Scenario(
        Surroundings(seed=0, ready=4.0),
        (
            Cluster(
                (Group(0, 3, 0, 6, hosts=2), Group(1, 3, 0, 6)),
                rolling=Rolling(surge=2, unavailable=1),
            ),
        ),
        (
            Step(15.0, EditPods(0, -2, 1, "ray")),
            Step(0.0, EditPods(0, -2, 2, "ray")),
            Step(6.0, EditPods(0, -2, 1, "ray")),
            Step(0.0, Fault("refused", "", every=2, seconds=0.1, lasts=2.0)),
            Step(6.0, Restart("stop")),
            Step(0.0, Fault("lag", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, Fault("lost answer", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, EditPods(0, -2, 1, "own")),
        ),
    ),
    "an update is paused and its surge withdrawn before the surge is ready": Scenario(
        Surroundings(seed=459, start=1.0, ready=4.0, termination=1.0),
        (
            Cluster(
                (Group(0, 2), Group(1, 2)),
                rolling=Rolling(surge=2, unavailable=0, parallel=2, drain=5),
            ),
        ),
        (
            Step(15.0, EditPods(0, -2, 1, "gpu")),
            Step(
                3.5,
                ChangeRolling(0, Rolling(surge=0, unavailable=1, parallel=1, drain=0, paused=True)),
            ),
        ),
    ),
    "an autoscaler names the last outdated worker just when the head is due": Scenario(
        Surroundings(seed=18, start=4.0, ready=4.0, past=20, streaming=False),
        (
            Cluster(
                (Group(0, 3, 1, 7),),
                autoscaler="v2",
                storage="rocksdb",
                rolling=Rolling(surge=2, drain=0, deadline=20),
            ),
            Cluster((Group(0, 3, 1, 7),), rolling=Rolling(surge=0, unavailable=2, drain=0)),
        ),
        (
            Step(15.0, EditPods(0, -2, 2, "ray")),
            Step(16.0, Fault("lag", "pods", seconds=5.0, lasts=2.0)),
            Step(0.0, EditPods(0, -2, 1, "ray")),
            Step(15.1, EditPods(0, -2, 2, "ray")),
            Step(0.3, Restart("before", 1.0)),
            Step(21.0, EditPods(0, 1, 1, "ray")),
            Step(0.0, EditPods(0, -1, 3, "own")),
            Step(6.0, Fault("unreadable", every=2, seconds=5.0, lasts=30.0)),
        ),
        drains=Fate("stuck"),
    ),
    "killed after it has stored that a replacement of all pods is held": Scenario(
        Surroundings(seed=468, eviction=40.0, collector_lag=3.0, past=40, streaming=False),
        (
            Cluster((Group(0, 4, 0, 3),), rolling=Rolling(surge=0, unavailable=2, drain=5)),
            Cluster(
                (Group(0, 5, 0, 3, hosts=3), Group(1, 4)),
                autoscaler="v2",
                rolling=Rolling(surge=0, unavailable="50%"),
            ),
        ),
        (
            Step(21.0, Restart("stop", 10.0)),
            Step(2.5, Delete(0, "Foreground")),
            Step(21.6, Compact()),
            Step(21.3, Prune("spec.workerGroupSpecs", 10.0)),
            Step(6.0, Restart("after")),
            Step(3.5, ChangeStrategy(1, recreate=True)),
        ),
        drains=Fate("stuck", running=2.0),
    ),
    "a copy of the head that is outdated when it is seen": Scenario(
        Surroundings(seed=940, termination=12.0, collector_lag=0.0, past=5, streaming=False),
        (Cluster((Group(0, 3, 0, 6),), rolling=Rolling()),),
        (
            Step(17.5, Fault("lag", "pods", seconds=0.1, lasts=2.0)),
            Step(0.0, ChangeStrategy(0, recreate=True)),
            Step(0.3, EditPods(0, -2, 1, "ray")),
            Step(0.0, EndPod(3, "replace")),
            Step(0.05, EditPods(0, -2, 3, "ray")),
            Step(0.0, EditPods(0, -2, 1, "ray")),
        ),
    ),
    "a create that arrives when its repetition has come and gone": Scenario(
        Surroundings(seed=0, collector_lag=0.0, past=0),
        (
            Cluster(
                (Group(0, 3, 0, 6, hosts=2),),
                autoscaler="v2",
                storage="redis",
                rolling=Rolling(),
            ),
        ),
        (
            Step(15.0, Restart("kill", 0.0)),
            Step(0.0, Fault("straggling", "pods", 3, 31.0, 30.0)),
            Step(0.0, ChangeStrategy(0, recreate=False)),
            Step(0.0, Scale(0, 0, 4)),
            Step(0.0, ChangeStorage(0, "")),
            Step(0.0, Webhook("refuses", "pods", "create", 2.0)),
            Step(0.0, Fault("lost answer", "pods", 1, 0.1, 30.0)),
            Step(0.0, EditPods(0, -2, 1, "ray")),
        ),
        drains=Fate(pending=1.0, running=2.0),
    ),
    "a dispute whose end the status tells of late, because it was refused": Scenario(
        Surroundings(seed=0, past=0, collector_lag=0.0),
        (Cluster((Group(0, 0, 0, 6),)),),
        (
            Step(0.0, Rival("labels", 0.0, 2.0)),
            Step(0.3, Webhook("refuses", "rayclusters.ray.io", "patch", 10.0)),
        ),
    ),
    "a submitter that has ended with a head that nobody could ask about the job": Scenario(
        Surroundings(seed=0, past=0, collector_lag=0.0),
        (),
        (
            Step(0.0, RayFault("late", 5.0)),
            Step(0.0, RayFault("late", 5.0)),
            Step(0.3, Fault("lag", "rayjobs.ray.io", 1, 0.1, 2.0)),
            Step(0.0, Restart("kill", 1.0)),
            Step(0.3, DeleteJobCluster(0)),
        ),
        (Job(mode="SidecarMode", fates=(Fate("SUCCEEDED", 1.0, 1.0),), shutdown=True),),
    ),
    "a RayJob has ended when it is first seen, and no history is kept, and the status is late": (
        Scenario(
            Surroundings(),
            (),
            (
                Step(56.0, Fault("lag", "rayjobs.ray.io", seconds=4.0, lasts=20.0)),
                Step(3.0, Restart("after")),
                Step(0.0, Fault("503", "raycronjobs.ray.io", lasts=15.0)),
            ),
            crons=(CronJob(successful=0, fates=(Fate(running=2.0),)),),
        )
    ),
    "a lease is deleted that one operator took after the last look of the other": Scenario(
        Surroundings(seed=9),
        (TWO_WORKERS,),
        (Step(0.35, DeleteLease()), Step(2.5, Scale(0, 0, 3))),
        elected=True,
    ),
    "etcd is restored with a cluster that the operator knows to be gone, and revisions go on": (
        Scenario(
            Surroundings(seed=49, start=4.0, termination=1.0, collector_lag=3.0, past=40),
            (Cluster((Group(0, 2),), storage="redis"),),
            (
                Step(13.0, Fault("lag", "pods", seconds=15.0, lasts=2.0)),
                Step(0.0, RestoreDatabase(10.0, bumped=True)),
                Step(1.35, Delete(0)),
                Step(6.6, Restart("stop")),
            ),
        )
    ),
    "an answer tells that a cluster is gone that the cache still shows, with pods on their way": (
        Scenario(
            Surroundings(seed=733, ready=4.0, termination=1.0, collector_lag=3.0, past=5),
            (
                Cluster((Group(0, 3, 1, 7),), storage="redis"),
                Cluster((Group(0, 1, 0, 3),), storage="rocksdb"),
                TWO_WORKERS,
            ),
            (
                Step(8.0, Fault("lag", "pods", seconds=5.0, lasts=10.0)),
                Step(0.0, Scale(2, 0, 5)),
                Step(0.3, Fault("lag", "", 5, seconds=15.0, lasts=2.0)),
                Step(0.35, Delete(2)),
            ),
        )
    ),
    "a user makes a copy of a head at the moment in which the operator replaces it": Scenario(
        Surroundings(ready=1.0),
        (ONLY_HEAD,),
        (Step(0.3, EndPod(0, "replace")),),
    ),
    "two of three incomplete replicas are completed while the third one goes": Scenario(
        Surroundings(streaming=False),
        (Cluster((Group(0, 3, hosts=2),)),),
        (
            Step(0.0, Fault("lag", "pods", lasts=2.0)),
            Step(0.0, Fault("lost answer", "pods", 3, lasts=2.0)),
            Step(0.05, Scale(0, 0, 2)),
        ),
    ),
    "a user comes back in the last second, and Ray falls silent while he works": Scenario(
        Surroundings(seed=1),
        (Cluster((Group(0, replicas=2),), idle=60, budgets=True),),
        (
            Step(1.0, Use(0, lasts=1.0)),
            Step(1.0, Use(0, lasts=150.0, before=1.0)),
            Step(130.0, RayFault("refuses", lasts=40.0)),
            Step(20.0, Evict(0)),
            Step(5.0, Restart("kill")),
            Step(60.0, Use(0, lasts=1.0)),
        ),
    ),
}
"""By the sentence that says what happens."""

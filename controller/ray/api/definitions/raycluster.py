"""The schema of a RayCluster: every field of KubeRay's, with a description."""

from __future__ import annotations

from controller.apimachinery.core_schemas import (
    conditions,
    environment,
    environment_from,
    ingress_tls,
    network_rules,
    pod_template,
    resource_requirements,
    security_context,
    service,
    variable_source,
    volume_mounts,
)
from controller.apimachinery.schema import (
    Schema,
    array,
    boolean,
    int32,
    int64,
    int_or_percentage,
    map_of,
    quantity,
    rule,
    string,
    strings,
    struct,
    time,
    words,
)
from controller.ray.api.definitions import rules
from controller.ray.api.raycluster import LARGEST_INT32


def cluster_spec() -> Schema:
    """Return the schema of `spec`, also of the clusters of RayJobs and RayServices."""
    return struct(
        "The wanted state of the cluster.",
        {
            "authOptions": _auth_options(),
            "autoscalerOptions": _autoscaler_options(),
            "disruptionBudgets": _disruption_budgets(),
            "enableInTreeAutoscaling": boolean(
                "Whether Ray's autoscaler runs beside the head and decides on replicas."
            ),
            "gcsFaultToleranceOptions": _gcs_fault_tolerance_options(),
            "gracefulTerminationOptions": _graceful_termination_options(),
            "headGroupSpec": _head_group(),
            "headServiceAnnotations": strings("Annotations of the head service."),
            "historyServerOptions": _history_server_options(),
            "idleSuspend": boolean(
                "Whether all pods are deleted because nobody used the cluster; set by us. "
                "False, or an edit that says `suspend: false`, resumes it."
            ),
            "idleTerminationOptions": _idle_termination_options(),
            "managedBy": managed_by(),
            "networkPolicy": _network_policy(),
            "rayVersion": string("Version of Ray in the images; decides on what is supported."),
            "suspend": boolean(
                "Whether all pods are deleted; false again, and only false, resumes the cluster."
            ),
            "tlsOptions": struct(
                "Mutual TLS between the nodes of the cluster.",
                {"enabled": boolean("Whether it is on.")},
            ),
            "upgradeStrategy": _upgrade_strategy(),
            "workerGroupSpecs": array(
                "Groups of workers that are alike.", _worker_group(), keys=["groupName"]
            ),
        },
        required=["headGroupSpec"],
    )


def _disruption_budgets() -> Schema:
    """Return the schema of `spec.disruptionBudgets`, which KubeRay has not."""
    return struct(
        "Asks for PodDisruptionBudgets while a driver, job or Serve application uses the cluster: "
        "its head and replicas of several hosts are not evicted then.",
        {
            "workersMaxUnavailablePercent": int32(
                "Share of the workers of each other group that may be evicted at a time, rounded "
                "up; all of them if not given.",
                minimum=0,
                maximum=100,
            )
        },
    )


def _graceful_termination_options() -> Schema:
    """Return the schema of `spec.gracefulTerminationOptions`, which KubeRay is about to have."""
    return struct(
        "How much time pods get when they are taken away. With it, even if empty, workers get a "
        "hook that lets Ray drain them first.",
        {
            "drainDeadlineSeconds": int32(
                "Seconds that the hook waits for running work; the grace period if not given.",
                minimum=1,
            ),
            "terminationGracePeriodSeconds": int32(
                "Grace period of pods whose template has none; 30 if not given.", minimum=1
            ),
        },
    )


def _idle_termination_options() -> Schema:
    """Return the schema of `spec.idleTerminationOptions`, which KubeRay is about to have."""
    return struct(
        "What becomes of a cluster that no driver, job or Serve application uses.",
        {
            "policy": string(
                "Suspend deletes the pods and keeps the object, Delete deletes the object, "
                "ScaleToMinimum sets replicas to minReplicas; Suspend if not given.",
                enum=["Suspend", "Delete", "ScaleToMinimum"],
            ),
            "timeoutSeconds": int32("Seconds without use.", minimum=1),
        },
        required=["timeoutSeconds"],
    )


def managed_by() -> Schema:
    """Return the schema of `spec.managedBy`, which several kinds share."""
    return {
        **string("Which controller reconciles this object; this one if not given."),
        "x-kubernetes-validations": [
            rule("self == oldSelf", "the managedBy field is immutable"),
            rule(
                "self in ['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']",
                "the managedBy field value must be either 'ray.io/kuberay-operator' or "
                "'kueue.x-k8s.io/multikueue'",
            ),
        ],
    }


def _upgrade_strategy() -> Schema:
    """Return the schema of `spec.upgradeStrategy`; KubeRay's lacks RollingUpdate."""
    rolling = struct(
        "Settings of type RollingUpdate.",
        {
            "drainTimeoutSeconds": int32(
                "Seconds that Ray may take to drain a worker before its pod is deleted, 300 if not "
                "given; 0 turns draining off.",
                minimum=0,
            ),
            "maxParallelGroups": int32(
                "Groups that may be replaced at the same time, 1 if not given.", minimum=1
            ),
            "maxSurge": int_or_percentage(
                "Replicas that a group may have above its number, or their percentage, rounded up; "
                "1 if not given."
            ),
            "maxUnavailable": int_or_percentage(
                "Replicas that a group may lack, or their percentage, rounded down; 0 if not given."
            ),
            "paused": boolean("Whether nothing further is replaced for now."),
            "progressDeadlineSeconds": int32(
                "Seconds without progress after which the upgrade counts as stuck, 600 if not "
                "given.",
                minimum=1,
            ),
        },
    )
    return struct(
        "What happens to running pods when the specification changes.",
        {
            "rollingUpdate": rolling,
            "type": string(
                "RollingUpdate replaces outdated workers a few at a time, then the head if its "
                "state survives; Recreate deletes and rebuilds all pods at once; None, the "
                "default, lets them be.",
                enum=["Recreate", "None", "RollingUpdate"],
            ),
        },
    )


def _auth_options() -> Schema:
    return struct(
        "Authentication of requests to Ray.",
        {
            "enableK8sTokenAuth": boolean("Whether tokens are checked by the API server."),
            "mode": string("Whether requests need a token.", enum=["disabled", "token"]),
            "secretName": string(
                "Existing Secret whose key auth_token is used; one is generated if not given."
            ),
        },
    )


def _autoscaler_options() -> Schema:
    whose = "the autoscaler container"
    return struct(
        "Settings of Ray's autoscaler.",
        {
            "args": words("Arguments instead of the default ones."),
            "command": words("Command instead of the default one."),
            "env": environment(whose),
            "envFrom": environment_from(whose),
            "idleTimeoutSeconds": int32(
                "Seconds that a worker may be idle before it is removed.", **rules.not_negative
            ),
            "image": string("Image instead of that of the head."),
            "imagePullPolicy": string("Always, IfNotPresent or Never."),
            "resources": resource_requirements(whose),
            "securityContext": security_context(whose),
            "upscalingMode": string(
                "How eagerly workers are added.", enum=["Default", "Aggressive", "Conservative"]
            ),
            "version": string(
                "Version of the autoscaler; Ray chooses if not given.", enum=["v1", "v2"]
            ),
            "volumeMounts": volume_mounts(whose),
        },
    )


def _gcs_fault_tolerance_options() -> Schema:
    def credential(what: str) -> Schema:
        return struct(
            f"{what} for Redis.",
            {"value": string("The value itself."), "valueFrom": variable_source()},
        )

    backend = {
        **string("Where the state is stored.", enum=["redis", "rocksdb"]),
        "x-kubernetes-validations": [
            rule("self == oldSelf", "gcsFaultToleranceOptions.backend is immutable")
        ],
    }
    storage = struct(
        "Volume of backend rocksdb.",
        {
            "accessModes": words("Access modes of the claim, ReadWriteOnce if not given."),
            "claimName": string("Existing claim to use instead of a new one."),
            "deletionPolicy": string(
                "Whether the claim is deleted with the cluster.",
                enum=["DeleteWithCluster", "Retain"],
            ),
            "size": quantity("Size of the claim, 1Gi if not given."),
            "storageClassName": string("Storage class of the claim."),
            "subPath": string("Path inside the volume."),
        },
    )
    return struct(
        "Keeps the state of Ray's control service outside of the head, to survive its restart.",
        {
            "backend": backend,
            "externalStorageNamespace": string("Prefix of the keys in Redis; the uid by default."),
            "redisAddress": string("Address of Redis."),
            "redisPassword": credential("Password"),
            "redisUsername": credential("User name"),
            "storage": storage,
        },
    )


def _group_fields(whose: str) -> dict[str, Schema]:
    """Return the schemas of the common fields of head and worker groups."""
    return {
        "labels": strings(f"Labels of {whose}: of the pods and of the Ray nodes in them."),
        # Kueue's webhook writes null where a user has written nothing.
        "rayStartParams": {
            **strings("Parameters of ray start, without the leading dashes."),
            "nullable": True,
        },
        "resources": strings("Ray's logical resources, instead of those of the container."),
        "template": {**pod_template(whose), **rules.with_container},
    }


def _head_group() -> Schema:
    ingress = struct(
        "Settings of the ingress.",
        {
            "host": string("Host name; all if not given."),
            "path": string("Path, / if not given."),
            "pathType": string(
                "How the path is matched, Prefix if not given.",
                enum=["Exact", "Prefix", "ImplementationSpecific"],
            ),
            "tls": ingress_tls(),
        },
    )
    return struct(
        "The head: one pod.",
        {
            "enableIngress": boolean("Whether an ingress to the dashboard is created."),
            "headService": service("A service to use in front of the head, completed by us."),
            "ingressOptions": ingress,
            "serviceType": string("Type of the generated head service."),
            **_group_fields("the head pod"),
        },
        required=["template"],
    )


def _worker_group() -> Schema:
    group = struct(
        "A group of workers that are alike.",
        {
            "groupName": string("Name of the group, unique in the cluster.", **rules.group_name),
            "idleTimeoutSeconds": int32(
                "Seconds that a worker of this group may be idle; needs autoscaler v2.",
                **rules.not_negative,
            ),
            "maxReplicas": int32("The most replicas.", default=LARGEST_INT32, **rules.not_negative),
            "minReplicas": int32("The fewest replicas.", default=0, **rules.not_negative),
            "numOfHosts": int32("Pods of one replica.", default=1),
            "priority": int32(
                "Groups of higher priority are scaled up first; needs autoscaler v2.", default=0
            ),
            "replicas": int32(
                "Wanted replicas; written by the autoscaler while it is on.",
                default=0,
                **rules.not_negative,
            ),
            "scaleStrategy": struct(
                "Which workers go.",
                {"workersToDelete": words("Names of pods that are to be deleted.")},
            ),
            "suspend": boolean("Whether the pods of the group are deleted."),
            **_group_fields("the workers"),
        },
        required=["groupName", "maxReplicas", "minReplicas", "template"],
    )
    return group | rules.worker_group


def _history_server_options() -> Schema:
    whose = "the collector container"
    collector = struct(
        "The collector of events that runs beside Ray.",
        {
            "env": environment(whose),
            "image": string("Image of the collector."),
            "imagePullPolicy": string("Always, IfNotPresent or Never."),
            "resources": resource_requirements(whose),
        },
    )
    return struct("Settings of the history server.", {"collectorOptions": collector})


def _network_policy() -> Schema:
    def rules(whose: str, **more: Schema) -> Schema:
        return struct(
            f"Rules for {whose}.",
            {
                **more,
                "egressRules": network_rules("egress"),
                "ingressRules": network_rules("ingress"),
            },
            required=list(more),
        )

    group = rules("one group of workers", groupName=string("Name of the group."))
    return struct(
        "Network policies between the cluster and the rest.",
        {
            "head": rules("the head"),
            "mode": string(
                "What is denied.",
                enum=["DenyAll", "DenyAllIngress", "DenyAllEgress"],
                default="DenyAll",
            ),
            "worker": rules("workers of groups without rules of their own"),
            "workerGroups": array("Rules for single groups.", group, keys=["groupName"]),
        },
    )


def _upgrade_status() -> Schema:
    """Return the schema of `status.upgrade`, which KubeRay's definition lacks."""
    group = struct(
        "A worker group that is being upgraded.",
        {
            "desired": int32("Worker pods that are wanted."),
            "drainingSince": time("Since when the first of its workers is being drained."),
            "name": string("Name of the group."),
            "outdated": int32("Worker pods that are still to be replaced."),
            "ready": int32("Worker pods that can do work."),
            "updated": int32("Worker pods that were created from the present template."),
        },
        required=["name"],
    )
    return struct(
        "How far a rolling update is, while there is one.",
        {"groups": array("The worker groups.", group, keys=["name"])},
    )


def cluster_status() -> Schema:
    """Return the schema of `status`, also embedded in that of RayJobs and RayServices."""
    return struct(
        "The observed state of the cluster.",
        {
            "availableWorkerReplicas": int32("Worker pods that run."),
            "conditions": conditions(),
            "desiredCPU": quantity("CPUs that all wanted pods ask for."),
            "desiredGPU": quantity("GPUs that all wanted pods ask for."),
            "desiredMemory": quantity("Memory that all wanted pods ask for."),
            "desiredTPU": quantity("TPUs that all wanted pods ask for."),
            "desiredWorkerReplicas": int32("Worker pods that are wanted."),
            "endpoints": strings("Ports of the head service by their names."),
            "head": struct(
                "The head.",
                {
                    "podIP": string("IP address of the head pod."),
                    "podName": string("Name of the head pod."),
                    "serviceIP": string("IP address under which the head is reached."),
                    "serviceName": string("Name of the head service."),
                },
            ),
            "lastUpdateTime": time("When the status was last written.", nullable=True),
            "maxWorkerReplicas": int32("The most worker pods of all groups together."),
            "minWorkerReplicas": int32("The fewest worker pods of all groups together."),
            "observedGeneration": int64("Generation of the specification that this is about."),
            "readyWorkerReplicas": int32("Worker pods that are ready."),
            "reason": string("Why the cluster is in its state."),
            "state": string("ready once everything was there, suspended, or empty."),
            "stateTransitionTimes": map_of(
                "When each state was last entered.", {"type": "string", "format": "date-time"}
            ),
            "upgrade": _upgrade_status(),
        },
    )

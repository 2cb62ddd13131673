"""The definitions of RayJobs and RayCronJobs."""

from __future__ import annotations

from controller.apimachinery.core_schemas import conditions, pod_template
from controller.apimachinery.schema import (
    Schema,
    array,
    boolean,
    int32,
    int64,
    number,
    rule,
    string,
    strings,
    struct,
    time,
)
from controller.ray.api.definitions import rules
from controller.ray.api.definitions.raycluster import cluster_spec, cluster_status, managed_by

# The schema of a RayJob: every field of KubeRay's, and Manta's additions to the status.

_POLICIES = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")


def job_spec() -> Schema:
    """Return the schema of `spec`, also of `spec.jobTemplate` of RayCronJobs."""
    spec = struct(
        "What is to be run, and where.",
        {
            **_entrypoint(),
            **_lifetime(),
            "clusterSelector": strings(
                "Runs the job on an existing cluster: its name under the key ray.io/cluster."
            ),
            "jobId": string(
                "Submission id of the Ray job; generated if not given. With InteractiveMode the "
                "id of the job that was submitted by hand."
            ),
            "managedBy": managed_by(),
            "rayClusterSpec": {
                **cluster_spec(),
                "description": "The cluster to create for the job, a new one for each attempt.",
            },
            "submissionMode": string(
                "Who submits the job: K8sJobMode, a Kubernetes Job; HTTPMode, the operator; "
                "SidecarMode, a container beside the head; InteractiveMode, the user.",
                default="K8sJobMode",
                **rules.submission_mode,
            ),
            "submitterConfig": struct(
                "Settings of the submitter Job.",
                {"backoffLimit": int32("How often its pod is retried, 2 if not given.")},
            ),
            "submitterPodTemplate": pod_template("the submitter"),
            "suspend": boolean(
                "Whether the job is suspended: its cluster is deleted, and created again when this "
                "becomes false."
            ),
        },
    )
    return spec | rules.job


def _entrypoint() -> dict[str, Schema]:
    return {
        "entrypoint": string("The command that Ray runs."),
        "entrypointNumCpus": number("CPU cores set aside for the command."),
        "entrypointNumGpus": number("GPUs set aside for the command."),
        "entrypointResources": string("Custom resources set aside for the command, as JSON."),
        "metadata": strings("Metadata of the Ray job."),
        "runtimeEnvYAML": string("Ray's runtime environment of the job, as YAML."),
    }


def _lifetime() -> dict[str, Schema]:
    return {
        "activeDeadlineSeconds": int32(
            "Seconds that an attempt may take before it is ended.", **rules.positive
        ),
        "backoffLimit": int32(
            "How often a failed job is retried on a new cluster.", default=0, **rules.not_negative
        ),
        "deletionStrategy": _deletion_strategy(),
        "disruptionBackoffLimit": int32(
            "How many attempts may lose their head to evictions, preemption or the loss of a node "
            "and be retried without counting against backoffLimit; 0 if not given.",
            **rules.not_negative,
        ),
        "preRunningDeadlineSeconds": int32(
            "Seconds that an attempt may take until the job runs.", minimum=1
        ),
        "shutdownAfterJobFinishes": boolean("Whether the cluster is deleted when the job ends."),
        "ttlSecondsAfterFinished": int32(
            "Seconds between the end of the job and the deletion of its cluster.",
            default=0,
            **rules.not_negative,
        ),
    }


def _deletion_strategy() -> Schema:
    policy = string("What is deleted.", enum=_POLICIES)
    return {
        **struct(
            "What is deleted when the job has ended.",
            {
                "deletionRules": {
                    **array("What is deleted when.", _deletion_rule(), atomic=True),
                    "minItems": 1,
                },
                "onFailure": struct(
                    "After a failure; deletionRules replace it.", {"policy": policy}
                ),
                "onSuccess": struct(
                    "After a success; deletionRules replace it.", {"policy": policy}
                ),
            },
        ),
        "x-kubernetes-validations": [
            rule(
                "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
                "legacy policies (onSuccess/onFailure) and deletionRules cannot be used together "
                "within the same deletionStrategy",
            ),
            rule(
                "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
                "deletionStrategy requires either BOTH onSuccess and onFailure, OR the "
                "deletionRules field (cannot be empty)",
            ),
        ],
    }


def _deletion_rule() -> Schema:
    condition = {
        **struct(
            "When it is deleted.",
            {
                "jobDeploymentStatus": string("State of the RayJob.", enum=["Failed"]),
                "jobStatus": string("State of the Ray job.", enum=["SUCCEEDED", "FAILED"]),
                "ttlSeconds": int32("Seconds after the end of the job.", default=0, minimum=0),
            },
        ),
        "x-kubernetes-validations": [
            rule(
                "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
                "JobStatus and JobDeploymentStatus cannot be used together within the same "
                "deletion condition.",
            ),
            rule(
                "has(self.jobStatus) || has(self.jobDeploymentStatus)",
                "the deletion condition requires either the JobStatus or the JobDeploymentStatus "
                "field.",
            ),
        ],
    }
    return struct(
        "One deletion.",
        {"condition": condition, "policy": string("What is deleted.", enum=_POLICIES)},
        required=["condition", "policy"],
    )


def job_status() -> Schema:
    """Return the schema of `status`."""
    return struct(
        "The observed state of the job.",
        {
            **_attempt_status(),
            "attempts": array(
                "The last ten attempts, the oldest first.", _attempt(), keys=["number"]
            ),
            "conditions": conditions("the job"),
            "disrupted": int32(
                "How many of the failed attempts do not count, because of a disruption."
            ),
            "failed": int32("Attempts that failed.", default=0),
            "observedGeneration": int64("Generation of the specification that this is about."),
            "succeeded": int32("1 when the job has succeeded.", default=0),
        },
    )


def _attempt_status() -> dict[str, Schema]:
    """Return the schema of the present attempt's status, or of the last one's."""
    return {
        "dashboardURL": string("Host and port of the dashboard of Ray."),
        "endTime": time("When the last attempt that has ended did so."),
        "jobDeploymentStatus": string("State of the RayJob: Initializing, Running, Complete ..."),
        "jobId": string("Submission id of the Ray job."),
        "jobStatus": string("State of the Ray job: PENDING, RUNNING, SUCCEEDED ..."),
        "jobStatusCheckFailureStartTime": time("Since when Ray does not say how the job is."),
        "message": string("Why, in words."),
        "rayClusterName": string("Name of the cluster."),
        "rayClusterStatus": {**cluster_status(), "description": "Status of the cluster."},
        "rayJobInfo": struct(
            "Ray's report about the job.",
            {
                "endTime": time("When the Ray job ended."),
                "startTime": time("When the Ray job began."),
            },
        ),
        "reason": string("Why, in one word."),
        "startTime": time("When the attempt began."),
    }


def _attempt() -> Schema:
    return struct(
        "One attempt to run the job.",
        {
            "number": int32("Number of the attempt, from 1.", minimum=1),
            "rayClusterName": string("Name of its cluster."),
            "jobId": string("Submission id of the Ray job."),
            "startTime": time("When it began."),
            "endTime": time("When it ended."),
            "result": string("How it ended."),
            "reason": string("Why it ended, in one word."),
            "message": string("Why it ended, in words."),
            "disruption": string("What took the head away, in one word."),
            "log": string("The last lines of the submitter's log."),
        },
        required=["number"],
    )


# The schema of a RayCronJob: every field of KubeRay's, and those of `batch/v1` CronJob.


def cron_job_spec() -> Schema:
    """Return the schema of `spec`."""
    return struct(
        "When jobs are created, and which.",
        {
            "concurrencyPolicy": string(
                "The action when a job is due and an earlier one is not finished: Allow, the "
                "default, creates it; Forbid waits until the earlier one is finished; Replace "
                "deletes the earlier one first.",
                enum=["Allow", "Forbid", "Replace"],
            ),
            "failedJobsHistoryLimit": int32(
                "Number of failed RayJobs to keep, the latest; all if not given.", minimum=0
            ),
            "jobTemplate": {
                **job_spec(),
                "description": "Specification of the RayJobs, without metadata around it.",
            },
            "schedule": string(
                "Five fields (minute, hour, day of month, month, day of week), one of @yearly, "
                "@monthly, @weekly, @daily and @hourly, or @every with a duration of at least a "
                "minute, such as @every 1h30m.",
                **rules.schedule,
            ),
            "startingDeadlineSeconds": int64(
                "Seconds by which a job may be late and still be created; no limit if not given.",
                minimum=0,
            ),
            "successfulJobsHistoryLimit": int32(
                "Number of successful RayJobs to keep, the latest; all if not given.", minimum=0
            ),
            "suspend": boolean("Whether to create no more jobs; existing ones continue."),
            "timeZone": string(
                "Time zone of the schedule, such as Asia/Taipei; that of the operator if not "
                "given.",
                minLength=1,
            ),
        },
        required=["jobTemplate", "schedule"],
    )


def cron_job_status() -> Schema:
    """Return the schema of `status`."""
    job = struct(
        "One RayJob.",
        {
            "apiVersion": string("ray.io/v1."),
            "kind": string("RayJob."),
            "name": string("Its name."),
            "namespace": string("Its namespace."),
            "uid": string("Its uid."),
        },
        atomic=True,
    )
    return struct(
        "The observed state of the schedule.",
        {
            "active": array(
                "RayJobs that are not finished, the oldest first, a hundred at most.",
                job,
                atomic=True,
            ),
            "conditions": conditions("the schedule"),
            "lastScheduleTime": time(
                "The latest time of the schedule for which a job was created."
            ),
            "lastSuccessfulTime": time("When a job last ended with success."),
            "observedGeneration": int64("Generation of the specification that this is about."),
        },
    )

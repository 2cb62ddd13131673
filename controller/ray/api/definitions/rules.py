"""What the API server itself refuses: CEL rules of the definitions, and their words.

A rule refuses only what neither Manta nor KubeRay runs, and stands at the smallest part that it
judges: the API server (1.30 and newer) does not judge a part again that an update leaves as it is,
so that stored objects keep their status, lose their finalizers and can be edited elsewhere. That
goes for rules that do not hold, not for rules that cannot be evaluated: none may meet an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from controller.apimachinery.schedule import LONGEST_SCHEDULE, schedule_pattern
from controller.apimachinery.schema import Schema, rule, rules
from controller.apimachinery.template import NO_CONTAINER
from controller.ray.api import rayclusterfleet, raycronjob, rayservice
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.api.rayservice import UpgradeType
from controller.ray.api.validation import cluster, job
from controller.ray.api.validation.context import (
    NEEDS_ENTRYPOINT,
    NO_TIME_ZONE,
    NOT_NEGATIVE,
    NameRule,
)


def _name(names: NameRule) -> Schema:
    return rules(
        rule(f"size(self) <= {names.limit}", names.too_long),
        rule("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", names.malformed),
    )


_WITH_CONTAINER: Final = rules(
    rule(
        "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
        f"spec.containers {NO_CONTAINER}",
    )
)
_GROUP_NAME: Final[Schema] = {
    "maxLength": 63,
    "pattern": "^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$",
}
"""Without a rule of its own: a rule for each of any number of groups would cost too much."""

_WORKER_GROUP: Final = rules(
    rule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas is larger than maxReplicas; lower minReplicas or raise maxReplicas",
    )
)


def _one_of(words: type[Enum]) -> Schema:
    values = [each.value for each in words]
    named = ", ".join(f"'{value}'" for value in values)
    return rules(rule(f"self in ['', {named}]", f"must be one of {', '.join(values)}"))


_SELECTS: Final = "has(self.clusterSelector) && size(self.clusterSelector) > 0"
_RETRIES: Final = "has(self.backoffLimit) && self.backoffLimit > 0"
_TTL: Final = "has(self.ttlSecondsAfterFinished) && self.ttlSecondsAfterFinished > 0"
_SHUTS_DOWN: Final = "has(self.shutdownAfterJobFinishes) && self.shutdownAfterJobFinishes"


def _mode(mode: SubmissionMode) -> str:
    return f"has(self.submissionMode) && self.submissionMode == '{mode.value}'"


_JOB: Final = rules(
    rule(
        f"({_mode(SubmissionMode.INTERACTIVE)}) || has(self.submitterPodTemplate) || "
        "(has(self.entrypoint) && self.entrypoint != '')",
        f"entrypoint {NEEDS_ENTRYPOINT}",
    ),
    rule(
        f"has(self.rayClusterSpec) || ({_SELECTS})",
        "rayClusterSpec must be set, to create a cluster, or clusterSelector to use an existing "
        "one",
    ),
    rule(
        f"!({_TTL}) || ({_SHUTS_DOWN})",
        "ttlSecondsAfterFinished needs shutdownAfterJobFinishes to be true; or leave it out, and "
        "give deletionStrategy.deletionRules a condition.ttlSeconds instead",
    ),
    rule(
        f"!({_SELECTS}) || !({_RETRIES})",
        "backoffLimit must be 0 with clusterSelector: retries need new clusters",
    ),
    rule(
        f"!({_mode(SubmissionMode.INTERACTIVE)}) || !({_RETRIES})",
        "backoffLimit must be 0 with submissionMode InteractiveMode: you submit the job",
    ),
    rule(
        f"!({_mode(SubmissionMode.SIDECAR)}) || !(({_SELECTS}) || "
        "has(self.submitterPodTemplate) || has(self.submitterConfig))",
        "submissionMode SidecarMode cannot be used with clusterSelector, submitterPodTemplate or "
        "submitterConfig; remove them or use another mode",
    ),
)
_CRONTAB: Final = schedule_pattern().replace("\\", "\\\\")
_SCHEDULE: Final[Schema] = {
    "maxLength": LONGEST_SCHEDULE,
    **rules(
        rule("!self.contains('TZ')", NO_TIME_ZONE),
        rule(
            f"self.startsWith('@') || self.matches('{_CRONTAB}')",
            "must be five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or "
            "jan-dec) and day of week (0-6 or sun-sat), such as '30 3 * * mon'; or @daily and the "
            "like",
        ),
    ),
}
PARTS: Final[Mapping[str, Schema]] = {
    "cluster_name": _name(cluster.NAME_RULE),
    "job_name": _name(job.NAME_RULE),
    "service_name": _name(rayservice.NAME_RULE),
    "cron_job_name": _name(raycronjob.NAME_RULE),
    "fleet_name": _name(rayclusterfleet.NAME_RULE),
    "fleet_size": {"minimum": 0, "maximum": rayclusterfleet.MAX_REPLICAS},
    "not_negative": rules(rule("self >= 0", NOT_NEGATIVE)),
    "positive": rules(rule("self > 0", "must be positive, or left out")),
    "with_container": _WITH_CONTAINER,
    "group_name": _GROUP_NAME,
    "worker_group": _WORKER_GROUP,
    "submission_mode": _one_of(SubmissionMode),
    "upgrade_type": _one_of(UpgradeType),
    "job": _JOB,
    "schedule": _SCHEDULE,
}
"""The parts of the schemas in `schemas.txt` that share words or numbers with the validation."""

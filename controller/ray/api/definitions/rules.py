"""What the API server itself refuses: CEL rules of the definitions, and their words.

A rule refuses only what neither Manta nor KubeRay runs, and stands at the smallest part that it
judges: the API server (1.30 and newer) does not judge a part again that an update leaves as it is,
so that stored objects keep their status, lose their finalizers and can be edited elsewhere. That
goes for rules that do not hold, not for rules that cannot be evaluated: none may meet an error.
"""

from __future__ import annotations

from typing import Final

from controller.apimachinery.schedule import LONGEST_SCHEDULE, schedule_pattern
from controller.apimachinery.schema import Schema, rule, rules, string
from controller.apimachinery.template import NO_CONTAINER
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.api.rayservice import UpgradeType
from controller.ray.api.validation.context import (
    NEEDS_ENTRYPOINT,
    NO_TIME_ZONE,
    NOT_NEGATIVE,
    NameRule,
)


def metadata(name_rule: NameRule) -> Schema:
    """Return the schema of `metadata`: the rule for the names of a kind's objects."""
    name = rules(
        rule(f"size(self) <= {name_rule.limit}", name_rule.too_long),
        rule("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", name_rule.malformed),
    )
    return {"type": "object", "properties": {"name": string("Name of the object.", **name)}}


not_negative: Final = rules(rule("self >= 0", NOT_NEGATIVE))
positive: Final = rules(rule("self > 0", "must be positive, or left out"))
with_container: Final = rules(
    rule(
        "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
        f"spec.containers {NO_CONTAINER}",
    )
)
group_name: Final[Schema] = {
    "maxLength": 63,
    "pattern": "^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$",
}
"""Without a rule of its own: a rule for each of any number of groups would cost too much."""

worker_group: Final = rules(
    rule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas is larger than maxReplicas; lower minReplicas or raise maxReplicas",
    )
)


def _one_of(*values: str) -> Schema:
    named = ", ".join(f"'{value}'" for value in values)
    return rules(rule(f"self in ['', {named}]", f"must be one of {', '.join(values)}"))


submission_mode: Final = _one_of(*(mode.value for mode in SubmissionMode))
upgrade_type: Final = _one_of(*(each.value for each in UpgradeType))

_SELECTS: Final = "has(self.clusterSelector) && size(self.clusterSelector) > 0"
_RETRIES: Final = "has(self.backoffLimit) && self.backoffLimit > 0"
_TTL: Final = "has(self.ttlSecondsAfterFinished) && self.ttlSecondsAfterFinished > 0"
_SHUTS_DOWN: Final = "has(self.shutdownAfterJobFinishes) && self.shutdownAfterJobFinishes"


def _mode(mode: SubmissionMode) -> str:
    return f"has(self.submissionMode) && self.submissionMode == '{mode.value}'"


job: Final = rules(
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
schedule: Final[Schema] = {
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

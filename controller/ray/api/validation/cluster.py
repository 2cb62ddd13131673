"""Validates a RayCluster: KubeRay's checks in its order, each with a remedy.

All problems are reported on the object; the operator does not act on an invalid object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import is_true
from controller.apimachinery.custom_object import conditions_of, mapping
from controller.apimachinery.metadata import is_label_value, is_qualified_name
from controller.apimachinery.validation import (
    ContainerShape,
    PodShape,
    Problem,
    TemplateShape,
    read_template,
    service_problem,
)
from controller.ray.api import labels, lifetime_options
from controller.ray.api.feature_gates import JOB_DELETION_POLICY, FeatureGates
from controller.ray.api.names import MAX_CLUSTER_NAME, SUSPENDED, SUSPENDING
from controller.ray.api.ray_options import GROUP_PRIORITY_SINCE, is_at_least
from controller.ray.api.raycluster import (
    ClusterMeta,
    ClusterSpec,
    HeadGroup,
    RayCluster,
    WorkerGroup,
)
from controller.ray.api.upgrade_strategy import strategy_in_force
from controller.ray.api.validation import (
    AUTOSCALER_V2,
    GROUP_NAME,
    NOT_NEGATIVE,
    NameRule,
    ValidationContext,
    read_spec,
    valid_or_problem,
)
from controller.ray.api.validation.options import option_problems, strategy_problems

_RESOURCE_PARAMETERS: Final = ("num-cpus", "num-gpus", "memory", "resources")
_GROUP_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_AUTOSCALING: Final = "spec.enableInTreeAutoscaling"
INVALID_SPEC_REASON: Final = "InvalidRayClusterSpec"
_DEFAULT_GATES: Final = FeatureGates()
_EMPTY: Final = TemplateShape(spec=PodShape(containers=(ContainerShape(),)))
NAME_RULE: Final = NameRule(
    MAX_CLUSTER_NAME,
    noun="the cluster",
    reason="InvalidRayClusterMetadata",
    children="services and pods",
)


def validate_cluster(
    cluster: RayCluster, gates: FeatureGates = _DEFAULT_GATES
) -> ClusterSpec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    spec, wrong = read_spec(cluster, ClusterSpec), dict[str, Problem]()
    if not isinstance(spec, Problem):
        found = _in_force(cluster, spec)
        wrong = {name: each for name, each in found.items() if isinstance(each, Problem)}
        valid = {name: each for name, each in found.items() if name not in wrong}
        spec = msgspec.structs.replace(spec, **valid)
    problems = partial(_problems, cluster=cluster, gates=gates, wrong=wrong)
    return valid_or_problem(cluster, NAME_RULE, spec, problems, INVALID_SPEC_REASON)


def _in_force(cluster: RayCluster, spec: ClusterSpec) -> dict[str, Any]:
    """Return the fields that an annotation may replace, as they count, or what is wrong there."""
    annotations = cluster.metadata.annotations or {}
    return {
        "upgrade_strategy": strategy_in_force(spec.upgrade_strategy, annotations),
        "idle_termination_options": lifetime_options.idle_options(cluster, spec),
        "disruption_budgets": lifetime_options.budget_options(cluster, spec),
        "graceful_termination_options": lifetime_options.graceful_options(cluster, spec),
        "suspend": lifetime_options.is_idle_suspended(cluster, spec) or spec.suspend,
    }


def cluster_warnings(spec: ClusterSpec) -> tuple[str, ...]:
    """Return warnings about what does not make the cluster invalid."""
    return tuple(
        warning
        for position, group in enumerate(spec.worker_group_specs)
        for warning in _warnings(spec, group, _group(position))
    )


def _warnings(spec: ClusterSpec, group: WorkerGroup, path: str) -> Iterator[str]:
    policy = group.template["spec"].get("restartPolicy")
    if spec.autoscaler_version == "v1" and policy not in {None, "Never"}:
        yield (
            f"{path}.template.spec.restartPolicy: should be Never with autoscaler v1, or the "
            "autoscaler counts restarted workers wrongly"
        )
    if not spec.autoscaling and (group.replicas or 0) > group.most:
        yield (
            f"{path}.replicas: is {group.replicas}, and maxReplicas is {group.most}, so that the "
            f"group has {group.most}; raise maxReplicas or lower replicas"
        )


def idle_warnings(cluster: RayCluster, spec: ClusterSpec) -> tuple[str, ...]:
    """Return a warning where the owner of a cluster decides when it ends."""
    owner = cluster.metadata.controller
    if owner is None or spec.idle_termination_options is None:
        return ()
    effect = f"has no effect on a cluster of a {owner.kind}, which decides itself when it ends"
    return (f"{lifetime_options.IDLE}: {effect}",)


def _problems(
    spec: ClusterSpec, cluster: RayCluster, gates: FeatureGates, wrong: Mapping[str, Problem]
) -> Iterator[Problem]:
    """Yield all problems, most basic first; a template that cannot be read counts as empty.

    What is wrong of a field that an annotation may replace is known already.
    """
    strategy = wrong.get("upgrade_strategy")
    head = read_template(spec.head_group_spec.template, "spec.headGroupSpec.template")
    service = service_problem(spec.head_group_spec.head_service, "spec.headGroupSpec.headService")
    workers = [
        read_template(group.template, f"{_group(position)}.template")
        for position, group in enumerate(spec.worker_group_specs)
    ]
    parts = (strategy, head, service, *workers)
    yield from (each for each in parts if isinstance(each, Problem))
    shapes = [_EMPTY if isinstance(each, Problem) else each for each in (head, *workers)]
    context = ValidationContext(cluster, spec, shapes[0], tuple(shapes[1:]), gates)
    yield from _group_rules(spec.head_group_spec, "spec.headGroupSpec")
    yield from _worker_groups(context)
    yield from option_problems(context)
    yield from _suspended_groups(context)
    yield from _autoscaler(context)
    yield from _idle(context, wrong)
    yield from _graceful(context, wrong)
    if strategy is None:
        yield from strategy_problems(context)
    yield from _contradicting_status(context)


def _group_rules(group: HeadGroup | WorkerGroup, path: str) -> Iterator[Problem]:
    """Yield problems of head and worker groups: logical resources and labels."""
    parameters = group.ray_start_params or {}
    given = [key for key in _RESOURCE_PARAMETERS if parameters.get(key)]
    for key in given if group.resources else ():
        yield Problem(
            f"{path}.rayStartParams[{key}]",
            f"says the same as {path}.resources; keep one of the two",
            against=(f"{path}.resources",),
        )
    if "labels" in parameters:
        yield Problem(f"{path}.rayStartParams[labels]", f"must be given as {path}.labels instead")
    for key, value in (group.labels or {}).items():
        if not is_qualified_name(key):
            yield Problem(f"{path}.labels[{key}]", "is not a valid label key")
        if not is_label_value(value):
            yield Problem(f"{path}.labels[{key}]", f"{value!r} is not a valid label value")


def _worker_groups(context: ValidationContext) -> Iterator[Problem]:
    seen: set[str] = set()
    for position, group in enumerate(context.spec.worker_group_specs):
        path = _group(position)
        yield from _group_name(group, path)
        if group.group_name in seen:
            yield Problem(
                f"{path}.groupName",
                f"{group.group_name!r} names two groups; give each its own name",
            )
        seen.add(group.group_name)
        yield from _replicas(group, path, autoscaling=context.spec.autoscaling)
        yield from _group_rules(group, path)
        yield from _autoscaled_group(context, group, path)


def _group_name(group: WorkerGroup, path: str) -> Iterator[Problem]:
    name = group.group_name
    if len(name) > 63 or _GROUP_NAME.fullmatch(name.lower()) is None:
        yield Problem(f"{path}.groupName", GROUP_NAME)
    if name == labels.HEAD_GROUP:
        yield Problem(f"{path}.groupName", f"{name!r} is the group of the head; choose another")


def _replicas(group: WorkerGroup, path: str, *, autoscaling: bool) -> Iterator[Problem]:
    for field, value in (("minReplicas", group.min_replicas), ("maxReplicas", group.max_replicas)):
        if value is None and not autoscaling:
            yield Problem(f"{path}.{field}", "must be set when autoscaling is off")
        if value is not None and value < 0:
            yield Problem(f"{path}.{field}", f"is {value}; it must not be negative")
    if group.least > group.most:
        yield Problem(
            f"{path}.minReplicas",
            f"minReplicas is {group.least} and maxReplicas is {group.most}; minReplicas must not "
            "be the larger one",
        )


def _autoscaled_group(
    context: ValidationContext, group: WorkerGroup, path: str
) -> Iterator[Problem]:
    if group.idle_timeout_seconds is not None:
        if group.idle_timeout_seconds < 0:
            yield Problem(f"{path}.idleTimeoutSeconds", NOT_NEGATIVE)
        yield from _autoscaler_v2(context, f"{path}.idleTimeoutSeconds")
    if group.priority:
        if not is_at_least(context.spec.ray_version, GROUP_PRIORITY_SINCE):
            yield Problem(f"{path}.priority", "needs spec.rayVersion to be set to 2.56.0 or later")
        yield from _autoscaler_v2(context, f"{path}.priority")


def _autoscaler_v2(context: ValidationContext, field: str) -> Iterator[Problem]:
    if not context.autoscaler_v2:
        yield Problem(field, "needs autoscaler v2: set spec.autoscalerOptions.version to v2")


def _lacks_autoscaler_v2(context: ValidationContext) -> bool:
    """Return whether a group needs autoscaler v2, so that its further demands are told as well."""
    if context.autoscaler_v2 or not context.spec.autoscaling:
        return False
    groups = context.spec.worker_group_specs
    return any(group.priority or group.idle_timeout_seconds is not None for group in groups)


def _suspended_groups(context: ValidationContext) -> Iterator[Problem]:
    for position, group in enumerate(context.spec.worker_group_specs):
        if group.suspend and not context.gates.enabled(JOB_DELETION_POLICY):
            yield Problem(
                f"{_group(position)}.suspend", f"needs the feature gate {JOB_DELETION_POLICY}"
            )
        if group.suspend and context.spec.autoscaling:
            yield Problem(
                f"{_group(position)}.suspend",
                f"cannot be true while {_AUTOSCALING} is; set the group's replicas bounds instead",
                against=(_AUTOSCALING,),
            )


def _autoscaler(context: ValidationContext) -> Iterator[Problem]:
    spec, options = context.spec, context.spec.autoscaler_options
    variable = context.head.ray.variable(AUTOSCALER_V2)
    where = f"spec.headGroupSpec.template.spec.containers[0].env[{AUTOSCALER_V2}]"
    if not spec.autoscaling and variable is not None and variable.value in {"1", "true"}:
        yield Problem(where, f"has no autoscaler to act on: remove it, or set {_AUTOSCALING}")
    version = "v2" if _lacks_autoscaler_v2(context) else spec.autoscaler_version
    if version and variable is not None:
        yield Problem(where, "says the same as spec.autoscalerOptions.version; remove it")
    if version == "v2":
        yield from _restart_policies(context)
    if options is None:
        return
    if options.idle_timeout_seconds is not None and options.idle_timeout_seconds < 0:
        yield Problem("spec.autoscalerOptions.idleTimeoutSeconds", NOT_NEGATIVE)
    for position, entry in enumerate(options.env):
        if entry.get("name") == "KUBERAY_GEN_AUTOSCALER_START_CMD":
            yield Problem(
                f"spec.autoscalerOptions.env[{position}].name",
                "is set by the operator; use spec.autoscalerOptions.command to change the command",
            )


def _idle(context: ValidationContext, wrong: Mapping[str, Problem]) -> Iterator[Problem]:
    fields = ("disruption_budgets", "idle_termination_options")
    yield from (wrong[field] for field in fields if field in wrong)
    options = context.spec.idle_termination_options
    if options is None or "idle_termination_options" in wrong:
        return
    if options.policy == lifetime_options.SCALE_DOWN and context.spec.autoscaling:
        yield Problem(
            f"{lifetime_options.IDLE}.policy",
            f"cannot be {lifetime_options.SCALE_DOWN} while {_AUTOSCALING} is true, because the "
            "autoscaler decides on replicas; set spec.autoscalerOptions.idleTimeoutSeconds instead",
            against=(_AUTOSCALING,),
        )


def _graceful(context: ValidationContext, wrong: Mapping[str, Problem]) -> Iterator[Problem]:
    if problem := wrong.get("graceful_termination_options"):
        yield problem
        return
    spec = context.spec
    templates = {"spec.headGroupSpec.template": spec.head_group_spec.template}
    templates |= {
        f"{_group(position)}.template": group.template
        for position, group in enumerate(spec.worker_group_specs)
    }
    pods = {path: mapping(template.get("spec")) for path, template in templates.items()}
    yield from lifetime_options.late_deadlines(spec.graceful_termination_options, pods)


def _restart_policies(context: ValidationContext) -> Iterator[Problem]:
    shapes = {"spec.headGroupSpec": context.head}
    shapes |= {_group(position): shape for position, shape in enumerate(context.workers)}
    for path, shape in shapes.items():
        if shape.spec.restart_policy not in {"", "Never"}:
            yield Problem(
                f"{path}.template.spec.restartPolicy",
                f"is {shape.spec.restart_policy}; autoscaler v2 needs Never, or leave it out",
            )


def _contradicting_status(context: ValidationContext) -> Iterator[Problem]:
    conditions = conditions_of(context.cluster)
    if is_true(conditions, SUSPENDING) and is_true(conditions, SUSPENDED):
        yield Problem(
            "status.conditions",
            "RayClusterSuspending and RayClusterSuspended are both True; remove one of them",
            "InvalidRayClusterStatus",
        )


def _group(position: int) -> str:
    return f"spec.workerGroupSpecs[{position}]"


# Checks a cluster's specification that is embedded in an object of another kind.


def embedded_cluster_problem(
    spec: Mapping[str, Any],
    origin: str,
    annotations: Mapping[str, str] | None,
    gates: FeatureGates,
) -> Problem | None:
    """Return the problem of the cluster to be created; its field begins with `spec`.

    Args:
        spec: the cluster's specification.
        origin: kind of the object.
        annotations: annotations of the object, which the cluster inherits.
        gates: the enabled features.
    """
    imagined = RayCluster(
        metadata=ClusterMeta(
            name="cluster",
            labels={labels.ORIGIN_KIND: origin},
            annotations=dict(annotations) if annotations is not None else None,
        ),
        spec=dict(spec),
    )
    result = validate_cluster(imagined, gates)
    return result if isinstance(result, Problem) else None

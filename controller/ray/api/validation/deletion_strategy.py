"""Checks that `spec.deletionStrategy` contradicts neither itself nor the job."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.validation import Problem
from controller.ray.api.feature_gates import JOB_DELETION_POLICY, FeatureGates
from controller.ray.api.rayjob import (
    DeletionCondition,
    DeletionPolicy,
    DeletionRule,
    DeletionStrategy,
    JobSpec,
)

STRATEGY: Final = "spec.deletionStrategy"
_BY_REACH: Final = (DeletionPolicy.WORKERS, DeletionPolicy.CLUSTER, DeletionPolicy.SELF)
"""Policies by reach: each deletes the objects of those before it, and more."""
_FAILED: Final = "jobDeploymentStatus Failed"
_OF_CLUSTER: Final = frozenset({DeletionPolicy.WORKERS, DeletionPolicy.CLUSTER})


def deletion_problems(spec: JobSpec, gates: FeatureGates) -> Iterator[Problem]:
    """Yield all problems of the strategy."""
    strategy = spec.deletion_strategy
    if strategy is None:
        return
    if not gates.enabled(JOB_DELETION_POLICY):
        yield Problem(STRATEGY, f"needs the feature gate {JOB_DELETION_POLICY}")
    if strategy.deletion_rules:
        yield from _beside_rules(spec, strategy)
        yield from _rules(spec, strategy.deletion_rules)
    else:
        yield from _legacy(spec, strategy)


def _beside_rules(spec: JobSpec, strategy: DeletionStrategy) -> Iterator[Problem]:
    if spec.shutdown_after_job_finishes:
        yield Problem(
            "spec.shutdownAfterJobFinishes",
            f"cannot be true beside {STRATEGY}.deletionRules; set it to false: a rule with policy "
            "DeleteCluster says the same",
            against=(f"{STRATEGY}.deletionRules",),
        )
    if strategy.on_success or strategy.on_failure:
        yield Problem(
            f"{STRATEGY}.deletionRules",
            f"cannot be combined with {STRATEGY}.onSuccess and {STRATEGY}.onFailure; keep the "
            "rules",
            against=(f"{STRATEGY}.onSuccess", f"{STRATEGY}.onFailure"),
        )


def _rules(spec: JobSpec, rules: tuple[DeletionRule, ...]) -> Iterator[Problem]:
    seen: set[tuple[str, DeletionPolicy]] = set()
    for position, rule in enumerate(rules):
        path = f"{STRATEGY}.deletionRules[{position}]"
        yield from _condition(rule.condition, f"{path}.condition")
        yield from _policy(spec, rule.policy, f"{path}.policy")
        case = (_case(rule.condition), rule.policy)
        if case in seen:
            yield Problem(path, f"defines again when to {rule.policy.value}; remove it")
        seen.add(case)
    for case in dict.fromkeys(_case(rule.condition) for rule in rules):
        yield from _order([rule for rule in rules if _case(rule.condition) == case], case)


def _condition(condition: DeletionCondition, path: str) -> Iterator[Problem]:
    job, deployment = condition.job_status, condition.job_deployment_status
    if (job is None) == (deployment is None):
        yield Problem(path, "must name either jobStatus or jobDeploymentStatus")
    if job is not None and job not in {"SUCCEEDED", "FAILED"}:
        yield Problem(f"{path}.jobStatus", f"{job!r} is neither SUCCEEDED nor FAILED")
    if deployment is not None and deployment != "Failed":
        yield Problem(f"{path}.jobDeploymentStatus", f"{deployment!r} is not Failed")
    if condition.ttl_seconds < 0:
        yield Problem(f"{path}.ttlSeconds", "must not be negative")


def _policy(spec: JobSpec, policy: DeletionPolicy, path: str) -> Iterator[Problem]:
    if spec.cluster_selector and policy in _OF_CLUSTER:
        yield Problem(
            path,
            f"{policy.value} cannot be used with spec.clusterSelector: the cluster is not the "
            "job's own",
            against=("spec.clusterSelector",),
        )
    autoscaling = mapping(spec.ray_cluster_spec).get("enableInTreeAutoscaling")
    if autoscaling and policy is DeletionPolicy.WORKERS and not spec.cluster_selector:
        yield Problem(
            path,
            "DeleteWorkers cannot be used while spec.rayClusterSpec.enableInTreeAutoscaling is "
            "true; use DeleteCluster",
            against=("spec.rayClusterSpec.enableInTreeAutoscaling",),
        )


def _order(rules: list[DeletionRule], case: str) -> Iterator[Problem]:
    """Yield a problem where a policy that deletes more comes before one that deletes less."""
    seconds = {rule.policy: rule.condition.ttl_seconds for rule in rules}
    for less, more in pairwise(policy for policy in _BY_REACH if policy in seconds):
        if seconds[more] < seconds[less]:
            yield Problem(
                f"{STRATEGY}.deletionRules",
                f"with {case}, {more.value} comes after {seconds[more]} s, before {less.value} "
                f"after {seconds[less]} s, which then has nothing left to do; give "
                f"{more.value} the longer ttlSeconds",
            )


def _legacy(spec: JobSpec, strategy: DeletionStrategy) -> Iterator[Problem]:
    for name, outcome in (("onSuccess", strategy.on_success), ("onFailure", strategy.on_failure)):
        path = f"{STRATEGY}.{name}"
        if outcome is None or outcome.policy is None:
            yield Problem(
                f"{path}.policy",
                f"must be set, as onSuccess and onFailure need each other; or use "
                f"{STRATEGY}.deletionRules",
            )
            continue
        yield from _policy(spec, outcome.policy, f"{path}.policy")
        if outcome.policy is DeletionPolicy.NONE and spec.shutdown_after_job_finishes:
            yield Problem(
                f"{path}.policy",
                "is DeleteNone while spec.shutdownAfterJobFinishes is true; change one of them",
                against=("spec.shutdownAfterJobFinishes",),
            )


def deletion_holes(spec: JobSpec, gates: FeatureGates) -> str:
    """Return the ends of the job after which nothing is deleted, with the remedy; empty if none.

    Such a specification is valid: somebody may want to look at what is left.
    """
    strategy = spec.deletion_strategy
    if strategy is None or not gates.enabled(JOB_DELETION_POLICY):
        return ""
    by_rules = bool(strategy.deletion_rules)
    cases = {_case(rule.condition) for rule in strategy.deletion_rules}
    without_result = not by_rules or _FAILED not in cases
    holes = [
        text
        for is_hole, text in (
            (by_rules and "jobStatus SUCCEEDED" not in cases, "succeeds"),
            (without_result and by_rules and "jobStatus FAILED" not in cases, "fails"),
            (without_result, "fails without a result from Ray (a deadline, a lost head)"),
        )
        if is_hole
    ]
    if not holes:
        return ""
    where = "deletionRules" if by_rules else "onSuccess and onFailure"
    remedy = f"add rules for what may not stay, such as condition {_FAILED}"
    if not by_rules:
        remedy = f"use deletionRules, such as one with condition {_FAILED}"
    return (
        f"{STRATEGY}.{where}: nothing is deleted after a job that {', or that '.join(holes)}: "
        f"{remedy}"
    )


def stated_cases(strategy: DeletionStrategy) -> str:
    """Return the ends of a job for which the strategy says something."""
    if not strategy.deletion_rules:
        return "jobStatus SUCCEEDED, jobStatus FAILED"
    return ", ".join(dict.fromkeys(_case(rule.condition) for rule in strategy.deletion_rules))


def keeps_everything(strategy: DeletionStrategy) -> bool:
    """Return whether one of the older policies deletes nothing."""
    outcomes = (strategy.on_success, strategy.on_failure)
    return any(each is not None and each.policy is DeletionPolicy.NONE for each in outcomes)


def deletes_cluster(strategy: DeletionStrategy) -> bool:
    """Return whether a policy deletes the cluster or a part of it."""
    outcomes = (strategy.on_success, strategy.on_failure)
    policies = [each.policy for each in outcomes if each is not None]
    policies += [rule.policy for rule in strategy.deletion_rules]
    return any(policy in _OF_CLUSTER for policy in policies)


def _case(condition: DeletionCondition) -> str:
    """Return a text such as `jobStatus SUCCEEDED`."""
    if condition.job_status is not None:
        return f"jobStatus {condition.job_status}"
    return f"jobDeploymentStatus {condition.job_deployment_status}"

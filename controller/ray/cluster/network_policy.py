"""The NetworkPolicies of a cluster: one for the head and one for each worker group.

Pods of one cluster may always reach each other. Everything else that `spec.networkPolicy.mode`
denies must be admitted by rules of the specification, as in KubeRay: DNS, the API server for the
autoscaler, and who calls the dashboard, the operator included.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.apimachinery.patches import replacement
from controller.kube.objects import NetworkPolicy, Pod
from controller.kube.resources import NETWORK_POLICIES
from controller.ray.api import labels
from controller.ray.api.names import DASHBOARD_PORT
from controller.ray.api.raycluster import (
    ClusterSpec,
    NetworkPolicyOptions,
    NetworkRules,
    RayCluster,
)
from controller.ray.children import Body, DesiredFields, OwnedKeys, body_of
from controller.ray.cluster.children import child_metadata, pod_selector
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.diagnosis.reasons import Cause
from controller.ray.head import HeadEndpoint, Identity
from controller.ray.pods.environment import port_of
from controller.ray.pods.hashes import canonical
from controller.runtime.kind import CacheReader
from controller.runtime.reasons import FORBIDDEN

NAME_COLLISION = "NetworkPolicyNameCollision"
"""KubeRay's reason of the event about a policy that another owner has."""


def network_policies(seen: ClusterObservation, endpoint: HeadEndpoint) -> Iterator[Body]:
    """Yield the policies that the specification asks for; `endpoint` is the head that is there."""
    spec, identity = seen.desired.spec, seen.desired.identity
    options = spec.network_policy
    if options is None:
        return
    own = {"from": [_pods({labels.CLUSTER: identity.name})]}
    admitted = [own, *_submitter(seen.cluster, spec, endpoint)]
    yield _policy(identity, "", _spec(options, options.head, admitted))
    for group in spec.worker_group_specs:
        _, rules = options.rules_of(group.group_name)
        yield _policy(identity, group.group_name, _spec(options, rules, [own]))


def _spec(options: NetworkPolicyOptions, rules: NetworkRules, admitted: list[Body]) -> Body:
    """Return the policy types and the rules: the operator's, then those of the specification."""
    spec: Body = {"policyTypes": []}
    if options.denies_ingress:
        spec["policyTypes"].append("Ingress")
        spec["ingress"] = copy.deepcopy([*admitted, *rules.ingress_rules])
    if options.denies_egress:
        spec["policyTypes"].append("Egress")
        own = {"to": admitted[0]["from"]}
        spec["egress"] = copy.deepcopy([own, *rules.egress_rules])
    return spec


def _policy(identity: Identity, group: str, spec: Body) -> Body:
    """Return the policy of a worker group, or of the head if the name is empty."""
    part = f"workers-{group}" if group else "head"
    metadata = child_metadata(identity, f"{identity.name}-{part}")
    metadata["labels"][labels.GROUP] = group or labels.HEAD_GROUP
    pods = _pods(pod_selector(identity, group))
    return body_of(NETWORK_POLICIES, metadata, spec=pods | spec)


def _pods(selected: Mapping[str, str]) -> Body:
    return {"podSelector": {"matchLabels": dict(selected)}}


def _submitter(cluster: RayCluster, spec: ClusterSpec, endpoint: HeadEndpoint) -> Iterator[Body]:
    """Yield the rule that admits the submitter pod of the RayJob which owns the cluster.

    It calls the port to which the service of the head that is there leads.
    """
    owner, given = cluster.metadata.controller, cluster.metadata.labels or {}
    if owner is None or owner.kind != "RayJob" or not owner.api_version.startswith("ray.io/"):
        return
    if given.get(labels.SUBMISSION_MODE) != "K8sJobMode":
        return
    peer = _pods({labels.ORIGIN_NAME: owner.name, labels.ORIGIN_KIND: "RayJob"})
    ports = dict.fromkeys((_dashboard_port(spec), endpoint.dashboard_port))
    yield {"from": [peer], "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def _dashboard_port(spec: ClusterSpec) -> int:
    parameters = spec.head_group_spec.ray_start_params or {}
    return port_of(parameters, "dashboard-port", DASHBOARD_PORT)


def desired_policy_fields(
    body: Mapping[str, Any], present: NetworkPolicy, _formerly: OwnedKeys
) -> DesiredFields:
    """Return the desired fields: whatever others have added to selector or rules is removed.

    A label more in the selector, or a rule more, would open what the specification closes.
    """
    wanted: Body = {"ingress": [], "egress": [], **body["spec"]}
    found = present.spec
    now: Body = {
        "podSelector": found.pod_selector or {},
        "policyTypes": [*found.policy_types],
        "ingress": [*found.ingress],
        "egress": [*found.egress],
    }
    fields: Body = {"metadata": {"labels": body["metadata"]["labels"]}}
    if canonical(now) != canonical(wanted):  # defaults of the API server are no difference
        selector = replacement(now["podSelector"], wanted["podSelector"])
        fields["spec"] = wanted | {"podSelector": selector}
    return DesiredFields(fields)


def is_still_needed(
    policy: NetworkPolicy, spec: ClusterSpec, workers: Mapping[str, Sequence[Pod]]
) -> bool:
    """Return whether the policy of a removed group still has pods of it to protect."""
    group = (policy.metadata.labels or {}).get(labels.GROUP, "")
    return spec.network_policy is not None and bool(workers.get(group))


def policies_impossible(spec: ClusterSpec, reads: CacheReader) -> Iterator[Cause]:
    """Yield the cause for which no pod is created: the policies cannot be made."""
    if spec.network_policy is not None and not reads.serves(NETWORK_POLICIES):
        yield Cause(
            FORBIDDEN,
            "cluster",
            f"spec.networkPolicy cannot be obeyed, because the operator may not list {_RIGHTS}; "
            "no pod is created until it has these rights or the field is removed",
            blocks_head=True,
        )


_RIGHTS = (
    f"{NETWORK_POLICIES}: grant it the verbs get, list, watch, create, update and delete on them"
)


def network_policy_warnings(cluster: RayCluster, spec: ClusterSpec) -> Iterator[str]:
    """Yield warnings about connections that a cluster needs and no rule admits."""
    options = spec.network_policy
    if options is None:
        return
    parts = [("spec.networkPolicy.head", options.head)]
    parts += [options.rules_of(group.group_name) for group in spec.worker_group_specs]
    for path, rules in dict(parts).items():
        if options.denies_egress and not rules.egress_rules:
            yield (
                f"{path}.egressRules: admits nothing, so that these pods resolve no names: workers "
                "do not find the head, and the autoscaler not the API server; admit DNS, port 53"
            )
    origin = (cluster.metadata.labels or {}).get(labels.ORIGIN_KIND, "RayCluster")
    calls = origin != "RayCluster" or spec.upgrade_strategy.rolling is not None
    if calls and options.denies_ingress and not options.head.ingress_rules:
        yield (
            "spec.networkPolicy.head.ingressRules: admits nothing, so that the operator does not "
            f"reach Ray's dashboard; admit it to port {_dashboard_port(spec)}"
        )

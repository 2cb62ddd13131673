"""The Helm chart: what it renders, and that it grants what the operator needs and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controller.command.manager import ManagerOptions, read_options, settings_of
from controller.ray.api import custom_resource_definitions
from controller.ray.api.feature_gates import GATES
from controller.ray.settings import PERMISSIONS
from controller.runtime.settings import Settings
from tests.chart.helm import CHART, ROOT, helm, needs_helm, only, rendered
from tests.chart.prometheus import alerts

GATE_TWICE = ",".join(
    f"featureGates[{number}].name=Workspace,featureGates[{number}].enabled={value}"
    for number, value in enumerate(("true", "false"))
)


def render(*values: str) -> list[dict[str, Any]]:
    """What `helm template` makes of the chart, the CRDs included."""
    return rendered(CHART, *values, definitions=True)


def refused(*values: str) -> str:
    """What helm says about values that the chart does not take."""
    words = [word for value in values for word in ("--set", value)]
    done = helm("template", "release", str(CHART), "--kube-version", "1.36", *words, check=False)
    assert done.returncode
    return done.stderr


def granted(kind: str, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules of the role for what the operator serves."""
    named = [each for each in objects if each["metadata"]["name"] == "release-manta-operator"]
    return only(kind, named)["rules"]


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = only("Deployment", objects)["spec"]["template"]["spec"]["containers"]
    return container


def options_of(container: dict[str, Any]) -> ManagerOptions:
    """What the operator understands of the container's command line."""
    assert container["command"] == ["/manager"]
    return read_options(container["args"])


@pytest.mark.slow
def test_the_chart_ships_the_definitions_that_manta_prints():
    files = [CHART / "crds" / f"{group}.yaml" for group in ("ray.io", "manta.dev")]
    shipped = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    assert shipped == list(custom_resource_definitions())
    assert sorted((CHART / "crds").iterdir()) == sorted(files)


@pytest.mark.slow
@needs_helm
@pytest.mark.parametrize("scope", ["singleNamespaceInstall=false", "singleNamespaceInstall=true"])
def test_nodes_are_read_by_an_operator_that_is_told_to_and_may(scope: str):
    read = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    objects = render("watchNodes=true", scope)
    (role,) = (
        each
        for each in objects
        if each["metadata"]["name"].endswith("-nodes") and each["kind"] == "ClusterRole"
    )
    assert role["rules"] == [read]
    (bound,) = (
        each
        for each in objects
        if each["metadata"]["name"].endswith("-nodes") and each["kind"] == "ClusterRoleBinding"
    )
    assert bound["roleRef"]["name"] == role["metadata"]["name"]
    assert {"name": "WATCH_NODES", "value": "true"} in operator(objects)["env"]
    usual = str(render(scope))
    assert "WATCH_NODES" not in usual
    assert "'nodes'" not in usual


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()


@needs_helm
def test_an_operator_can_have_the_name_by_which_kuberays_plugin_finds_its_own():
    # `kubectl ray version` selects app.kubernetes.io/name in (kuberay-operator, kuberay)
    made = rendered(CHART, "nameOverride=kuberay-operator")
    [deployment] = [each for each in made if each["kind"] == "Deployment"]
    assert deployment["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay-operator"


@needs_helm
def test_the_chart_passes_helm_lint():
    helm("lint", "--strict", "--kube-version", "1.36", str(CHART))


@pytest.mark.slow
@needs_helm
def test_the_command_line_is_one_that_manta_understands():
    settings = settings_of(options_of(operator(render())))
    assert settings == Settings(leader_election=True, log_format="json")


@pytest.mark.slow
@needs_helm
def test_values_reach_the_command_line():
    gates = "featureGates[0].name=RayMultiHostIndexing", "featureGates[0].enabled=false"
    values = "reconcileConcurrency=4", "watchNamespace={a,b}", "metrics.enabled=false", *gates
    limits = "kubeClient.qps=5", "kubeClient.burst=7", "logging.level=warning"
    options = options_of(operator(render(*values, *limits)))
    settings = settings_of(options)
    assert settings.workers == 4
    assert settings.namespaces == ("a", "b")
    assert settings.metrics_address == ""
    assert (settings.qps, settings.burst) == (5, 7)
    assert settings.log_level == "warning"
    assert options.feature_gates == "RayMultiHostIndexing=false"


@pytest.mark.slow
@needs_helm
@pytest.mark.parametrize("scope", ["singleNamespaceInstall=false", "singleNamespaceInstall=true"])
def test_dashboards_are_reached_by_the_proxy_only_with_the_right_to_it(scope: str):
    kind = "ClusterRole" if scope.endswith("false") else "Role"
    directly, proxied = render(scope), render(scope, "useKubernetesProxy=true")
    assert not options_of(operator(directly)).configuration.use_kubernetes_proxy
    assert options_of(operator(proxied)).configuration.use_kubernetes_proxy
    usual = granted(kind, directly)
    (more,) = (rule for rule in granted(kind, proxied) if rule not in usual)
    assert more["resources"] == ["services/proxy"]
    assert set(more["verbs"]) <= PERMISSIONS["services/proxy"]


@pytest.mark.slow
@needs_helm
def test_probes_and_ports_are_where_the_operator_listens():
    container = operator(render())
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    default = Settings()
    assert f":{ports['health']}" == default.health_address
    assert f":{ports['metrics']}" == default.metrics_address
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


@pytest.mark.slow
@needs_helm
def test_the_pod_satisfies_the_restricted_pod_security_standard():
    objects = render()
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = operator(objects)["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.slow
@needs_helm
def test_the_pod_is_given_longer_than_the_operator_takes_to_stop():
    objects = render("gracePeriodSeconds=50")
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert settings_of(options_of(operator(objects))).grace_seconds == 50
    assert pod["terminationGracePeriodSeconds"] > 50


@pytest.mark.slow
@needs_helm
def test_the_debug_page_is_off_unless_its_port_is_given():
    assert settings_of(options_of(operator(render()))).debug_port == 0
    given = operator(render("debugPort=6060"))
    assert settings_of(options_of(given)).debug_port == 6060
    assert 6060 not in [each["containerPort"] for each in given["ports"]]


@pytest.mark.slow
@needs_helm
def test_the_web_page_is_off_unless_its_port_is_given_and_may_then_review_tokens():
    plain = render()
    assert settings_of(options_of(operator(plain))).page_port == 0
    assert "system:auth-delegator" not in yaml.safe_dump_all(plain)
    objects = render("pagePort=8090", "watchNamespace={a}")
    assert settings_of(options_of(operator(objects))).page_port == 8090
    assert 8090 not in [each["containerPort"] for each in operator(objects)["ports"]]
    (binding,) = (each for each in objects if each["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "system:auth-delegator"
    (account,) = binding["subjects"]
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert account["name"] == pod["serviceAccountName"]


@pytest.mark.slow
@needs_helm
def test_rights_are_those_of_the_rules_file_and_go_to_the_pods_account():
    objects = render()
    rules = yaml.safe_load((CHART / "rules.yaml").read_text())
    assert only("ClusterRole", objects)["rules"] == rules
    (subject,) = only("ClusterRoleBinding", objects)["subjects"]
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert subject["name"] == pod["serviceAccountName"] == "release-manta-operator"
    assert subject["namespace"] == "ray-system"


@pytest.mark.slow
@needs_helm
@pytest.mark.parametrize(
    ("value", "namespaces"),
    [("watchNamespace={a,b}", ["a", "b"]), ("singleNamespaceInstall=true", ["ray-system"])],
)
def test_limited_to_namespaces_it_needs_no_cluster_role(value: str, namespaces: list[str]):
    objects = render(value)
    kinds = [each["kind"] for each in objects]
    assert "ClusterRole" not in kinds
    names = {"Role": "release-manta-operator", "RoleBinding": "release-manta-operator"}
    granted = [each for each in objects if each["metadata"]["name"] == names.get(each["kind"])]
    assert [
        each["metadata"]["namespace"] for each in granted if each["kind"] == "Role"
    ] == namespaces
    assert len(granted) == 2 * len(namespaces)
    assert settings_of(options_of(operator(objects))).namespaces == tuple(namespaces)


@pytest.mark.slow
@needs_helm
def test_somebody_else_may_create_the_roles_of_the_watched_namespaces():
    objects = render("singleNamespaceInstall=true", "crNamespacedRbacEnable=false")
    assert only("Role", objects)["metadata"]["name"] == "release-manta-operator-leader-election"
    assert only("RoleBinding", objects)["metadata"]["namespace"] == "ray-system"


@pytest.mark.slow
@needs_helm
def test_several_replicas_elect_one_in_the_namespace_of_the_release():
    objects = render("replicas=2", "watchNamespace={a}")
    deployment = only("Deployment", objects)
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["strategy"] == {"type": "RollingUpdate"}
    assert only("PodDisruptionBudget", objects)["spec"]["maxUnavailable"] == 1
    assert settings_of(options_of(operator(objects))).leader_election
    name = "release-manta-operator-leader-election"
    role, binding = [each for each in objects if each["metadata"]["name"] == name]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "ray-system"
    (rule,) = role["rules"]
    assert rule["resources"] == ["leases"]
    assert set(rule["verbs"]) <= PERMISSIONS["leases.coordination.k8s.io"]


@pytest.mark.slow
@needs_helm
def test_without_an_election_there_is_one_replica_and_no_right_to_leases():
    objects = render("leaderElectionEnabled=false")
    assert only("Deployment", objects)["spec"]["strategy"] == {"type": "Recreate"}
    assert not settings_of(options_of(operator(objects))).leader_election
    assert not [each for each in objects if each["metadata"]["name"].endswith("leader-election")]
    said = refused("leaderElectionEnabled=false", "replicas=2")
    assert "more than one needs leaderElectionEnabled" in said


@pytest.mark.slow
@needs_helm
def test_what_is_added_to_the_pod_arrives():
    objects = render(
        "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].topologyKey=zone",
        "extraArgs={--zap-devel}",
        "env[0].name=CLUSTER_DOMAIN,env[0].value=a.example",
        "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=proxy",
        "extraVolumes[0].name=certificates,extraVolumes[0].emptyDir.medium=Memory",
        "extraVolumeMounts[0].name=certificates,extraVolumeMounts[0].mountPath=/etc/certificates",
        "labels.team=a",
        "annotations.note=b",
    )
    template, container = only("Deployment", objects)["spec"]["template"], operator(objects)
    spread = {"maxSkew": 1, "topologyKey": "zone"}
    assert template["spec"]["topologySpreadConstraints"] == [spread]
    assert container["args"][-1] == "--zap-devel"
    env = {each["name"]: each["value"] for each in container["env"]}
    assert (env["CLUSTER_DOMAIN"], env["HTTPS_PROXY"]) == ("a.example", "proxy")
    mount = {"name": "certificates", "mountPath": "/etc/certificates"}
    assert mount in container["volumeMounts"]
    volume = {"name": "certificates", "emptyDir": {"medium": "Memory"}}
    assert volume in template["spec"]["volumes"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"] == {"note": "b"}


@pytest.mark.slow
@needs_helm
def test_a_service_monitor_finds_the_metrics():
    objects = render("metrics.serviceMonitor.enabled=true")
    monitor, service = only("ServiceMonitor", objects), only("Service", objects)
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    target = service["spec"]["ports"][0]["targetPort"]
    assert target in {port["name"] for port in operator(objects)["ports"]}


@pytest.mark.slow
@needs_helm
def test_a_pod_monitor_and_a_network_policy_name_the_ports_of_the_pod():
    objects = render("metrics.podMonitor.enabled=true", "networkPolicy.enabled=true")
    ports = {port["name"] for port in operator(objects)["ports"]}
    labels = only("Deployment", objects)["spec"]["template"]["metadata"]["labels"]
    monitor, policy = only("PodMonitor", objects)["spec"], only("NetworkPolicy", objects)["spec"]
    for chosen in (monitor["selector"], policy["podSelector"]):
        assert chosen["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in ports
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == ports


@pytest.mark.slow
@needs_helm
def test_an_account_that_exists_must_be_named():
    assert "serviceAccount.name is needed" in refused("serviceAccount.create=false")
    objects = render("serviceAccount.create=false", "serviceAccount.name=mine")
    assert "ServiceAccount" not in [each["kind"] for each in objects]
    pod = only("Deployment", objects)["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "mine"


@pytest.mark.slow
@needs_helm
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("replica=2", "replica"),
        ("image.repo=a", "repo"),
        ("reconcileConcurrency=0", "reconcileConcurrency"),
        ("reconcileConcurrency=1001", "reconcileConcurrency"),
        ("metrics.prometheusRule.disabled={NoSuch}", "'MantaNoLeader'"),
        ("logging.stdoutEncoder=text", "stdoutEncoder"),
        ("watchNamespace=team", "watchNamespace"),
        ("featureGates.RayCronJob=true", "featureGates"),
        ("service.port=70000", "service/port"),
        ("batchScheduler.name=slurm", "batchScheduler/name"),
        ("mtlsIssuer=vault", "mtlsIssuer"),
        ("batchScheduler.enabled=true,batchScheduler.name=yunikorn", "keep only the latter"),
        ("featureGates[0].name=RayCronJobs,featureGates[0].enabled=true", "'RayCronJob'"),
        (GATE_TWICE, "Workspace is both enabled and disabled"),
        ("watchNamespace={Team_A}", "watchNamespace/0"),
        ("watchNamespace={a,a}", "items at 0 and 1 are equal"),
        ("extraArgs={--watch-namespace=a}", "set watchNamespace instead"),
        ("resources.limit.memory=1Gi", "'limit'"),
        ("resources.limits.memory=512mb", "resources/limits/memory"),
        ("env[0].nam=A", "'nam'"),
        ("extraEnv[0].name=A,extraEnv[0].valeu=b", "'valeu'"),
        ("env[0].name=A,env[0].value=b,env[0].valueFrom.c=d", "keep one of them"),
        ("debugPort=8082", "choose another"),
        ("pagePort=8080", "pagePort: 8080 is the port of the metrics"),
        ("pagePort=6060,debugPort=6060", "pagePort: 6060 is debugPort, too"),
    ],
)
def test_a_value_that_does_not_exist_or_makes_no_sense_is_named(value: str, said: str):
    assert said in refused(value)


@pytest.mark.slow
@needs_helm
@pytest.mark.parametrize(
    ("values", "group"),
    [
        ((), ""),
        (("batchScheduler.name=yunikorn",), ""),
        (("batchScheduler.name=volcano",), "scheduling.volcano.sh"),
        (("batchScheduler.enabled=true",), "scheduling.volcano.sh"),
        (("batchScheduler.name=scheduler-plugins",), "scheduling.x-k8s.io"),
        (
            ("featureGates[0].name=KubernetesWAS", "featureGates[0].enabled=true"),
            "scheduling.k8s.io",
        ),
    ],
)
def test_the_operator_may_write_the_groups_of_the_batch_scheduler_that_is_chosen(
    values: tuple[str, ...], group: str
):
    role = only("ClusterRole", rendered(CHART, *values))
    scheduling = {each for rule in role["rules"] for each in rule["apiGroups"] if "sched" in each}
    assert scheduling == ({group} if group else set())


@pytest.mark.slow
@needs_helm
def test_the_issuer_of_mtls_decides_about_rights_at_cert_manager():
    gate = ("featureGates[0].name=RayClusterMTLS", "featureGates[0].enabled=true")
    for values, granted in (
        ((), False),
        (gate, True),
        ((*gate, "mtlsIssuer=manta"), False),
        (("mtlsIssuer=manta", "configuration.enabled=true"), False),
    ):
        objects = rendered(CHART, *values)
        groups = {g for rule in only("ClusterRole", objects)["rules"] for g in rule["apiGroups"]}
        assert ("cert-manager.io" in groups) is granted
        texts = str(objects)
        chosen = "mtls-issuer=manta" in texts or "mtlsIssuer: manta" in texts
        assert chosen is ("mtlsIssuer=manta" in values)


def test_the_schema_has_every_value_and_no_other():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    paths = set(_paths(values))
    assert paths <= set(_schema_paths(schema))
    assert {path[0] for path in _schema_paths(schema)} - {path[0] for path in paths} == {"global"}


def test_the_schema_lists_the_feature_gates():
    schema = json.loads((CHART / "values.schema.json").read_text())
    gates = schema["properties"]["featureGates"]["items"]["properties"]["name"]["enum"]
    assert gates == ["AllAlpha", "AllBeta", *GATES]


def test_the_schema_lists_the_alerts():
    schema = json.loads((CHART / "values.schema.json").read_text())
    rule = schema["properties"]["metrics"]["properties"]["prometheusRule"]["properties"]
    assert rule["disabled"]["items"]["enum"] == list(alerts())


def _paths(value: Any, *above: str) -> Iterator[tuple[str, ...]]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        if above not in FREE and above[:1] not in FREE:
            yield (*above, name)
            yield from _paths(inner, *above, name)


FREE = {
    *(("resources",), ("podSecurityContext",), ("securityContext",)),
    ("metrics", "grafanaDashboard", "labels"),
    ("rayMetrics", "grafanaDashboard", "labels"),
}
"""Values that Kubernetes defines."""


def _schema_paths(schema: dict[str, Any], *above: str) -> Iterator[tuple[str, ...]]:
    for name, inner in schema.get("properties", {}).items():
        yield (*above, name)
        yield from _schema_paths(inner, *above, name)

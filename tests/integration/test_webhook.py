"""The admission webhook, as the API server asks it, and the chart that makes it be asked."""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from cryptography import x509

from controller.apimachinery.certificates import issued_once
from controller.command.kinds import KindSettings, kinds_of
from controller.command.operator import WebhookSettings
from controller.command.webhook import MountedCertificate, OwnCertificate, WebhookServer
from controller.kaito.api.labels import HASH
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.observation import Goal, read_goal
from controller.kube.errors import ConfigurationError, Invalid, NotFound, StatusError
from controller.kube.resources import SECRETS
from controller.ray.api import RAYCLUSTERS, FeatureGates
from tests.chart.helm import CHART, needs_helm, only, rendered
from tests.e2e.processes import ROOT
from tests.e2e.wrong_manifests import CLUSTER, JOB
from tests.integration.harness import REAL_KUBECONFIG, World, real_world

pytestmark = pytest.mark.real_time

ALL = FeatureGates.parse("Workspace=true,RayClusterFleet=true")


def now() -> datetime:
    return datetime.now(UTC)


def cluster(name: str = "example", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(CLUSTER.replace("NAME", name))
    body["metadata"]["namespace"] = "default"
    body["spec"] |= spec
    return body


def job(name: str = "example", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(JOB.replace("NAME", name))
    body["metadata"]["namespace"] = "default"
    body["spec"] |= spec
    return body


TWICE = {
    "workerGroupSpecs": [
        {**cluster()["spec"]["workerGroupSpecs"][0], "minReplicas": 4, "maxReplicas": 2}
    ]
}


@asynccontextmanager
async def serving(server: WebhookServer) -> AsyncIterator[None]:
    server.host = "127.0.0.1"  # with none, each of its addresses gets another free port
    listening = asyncio.Event()
    running = asyncio.create_task(server.run(listening.set))
    try:
        await listening.wait()
        async with asyncio.timeout(60):
            while server.unready():  # noqa: ASYNC110  as a kubelet asks
                await asyncio.sleep(0.01)
        yield
    finally:
        server.stop()
        await running


@asynccontextmanager
async def asked(folder: Path) -> AsyncIterator[Any]:
    """Ask a webhook with a mounted certificate as the API server does."""
    authority, certificate = issued_once("webhook", ("127.0.0.1",), now(), timedelta(days=1))
    (folder / "tls.crt").write_bytes(certificate.chain)
    (folder / "tls.key").write_bytes(certificate.key)
    kinds = kinds_of(KindSettings.from_environment(ALL, {}), None)
    server = WebhookServer(0, kinds, MountedCertificate(folder), now)
    trust = ssl.create_default_context(cadata=authority.decode())
    async with (
        serving(server),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session,
    ):

        async def ask(
            obj: dict[str, Any], before: dict[str, Any] | None = None, path: str = "validate"
        ) -> dict[str, Any]:
            group, _, version = obj["apiVersion"].partition("/")
            plural = f"{obj['kind'].lower()}s"
            request = {
                "uid": "u-1",
                "resource": {"group": group, "version": version, "resource": plural},
                "operation": "UPDATE" if before else "CREATE",
                "object": obj,
                "oldObject": before,
            }
            url = f"https://127.0.0.1:{server.port}/{path}"
            async with session.post(url, json={"request": request}) as answer:
                answer.raise_for_status()
                response = (await answer.json())["response"]
            assert response.pop("uid") == "u-1"
            return response

        ask.port = server.port
        yield ask


async def test_a_manifest_is_refused_with_all_its_fields_and_remedies(tmp_path: Path):
    async with asked(tmp_path) as ask:
        assert await ask(cluster()) == {"allowed": True}
        refused = await ask(cluster(**TWICE, rayVersion=""))
    assert not refused["allowed"]
    status = refused["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert "spec.workerGroupSpecs[0].minReplicas" in fields
    assert all(field in status["message"] for field in fields)


async def test_an_invalid_object_can_be_mended_step_by_step(tmp_path: Path):
    group = TWICE["workerGroupSpecs"][0]
    both = cluster(workerGroupSpecs=[group, {**group, "groupName": "other"}])
    one = cluster(workerGroupSpecs=[group, {**group, "groupName": "other", "minReplicas": 0}])
    async with asked(tmp_path) as ask:
        assert not (await ask(both))["allowed"]
        kept = await ask(one, before=both)
        assert kept["allowed"]
        assert "spec.workerGroupSpecs[0].minReplicas" in kept["warnings"][0]
        assert not (await ask(both, before=one))["allowed"], "a new problem"
        deleted = {**both, "metadata": {**both["metadata"], "deletionTimestamp": "2026-01-01"}}
        assert (await ask(deleted, before=one))["allowed"]


async def test_each_kind_is_asked_and_others_are_admitted(tmp_path: Path):
    wrong = {
        "RayJob": job(entrypoint="", backoffLimit=-1),
        "RayService": {
            "apiVersion": "ray.io/v1",
            "spec": {"serveConfigV2": "a: [", "rayClusterConfig": cluster()["spec"]},
        },
        "RayCronJob": {
            "apiVersion": "ray.io/v1",
            "spec": {"schedule": "61 * * * *", "jobTemplate": job()["spec"]},
        },
        "RayClusterFleet": {
            "apiVersion": "manta.dev/v1alpha1",
            "spec": {"replicas": 1, "template": {"spec": cluster(**TWICE)["spec"]}},
        },
        "Workspace": {
            "apiVersion": "kaito.sh/v1beta1",
            "resource": {"instanceType": "", "labelSelector": {"matchLabels": {"a": "b"}}},
        },
    }
    async with asked(tmp_path) as ask:
        for kind, body in wrong.items():
            named = {"metadata": {"name": "example", "namespace": "default"}, "kind": kind}
            refused = await ask({**named, **body})
            assert not refused["allowed"], kind
            assert refused["status"]["details"]["kind"] == kind
        stranger = {**cluster(), "apiVersion": "example.com/v1", "kind": "Other"}
        assert await ask(stranger) == {"allowed": True}
        path = "validate-ray-io-v1-rayjob"
        assert not (await ask(wrong["RayJob"], path=path))["allowed"], "KubeRay's address"


async def test_an_edit_of_what_must_not_change_is_refused_while_what_it_changes_is_in_force(
    tmp_path: Path,
):
    def workspace(count: int = 1, *, in_force: str = "", **changes: Any) -> dict[str, Any]:
        body: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "workspace.yaml").read_text())
        body["metadata"] |= {"namespace": "default", "annotations": {HASH: in_force}}
        return body | {"resource": body["resource"] | {"count": count}} | changes

    settings = KindSettings.from_environment(ALL, {})
    assert settings.kaito is not None
    goal = read_goal(msgspec.convert(workspace(), WORKSPACES.view), settings.kaito)
    assert isinstance(goal, Goal)
    before = workspace(in_force=goal.hash)
    async with asked(tmp_path) as ask:
        refused = await ask(workspace(2, in_force=goal.hash), before=before)
        assert not refused["allowed"]
        (cause,) = refused["status"]["details"]["causes"]
        assert cause["field"] == "resource.count"
        assert "field is immutable" in cause["message"]
        assert "delete the workspace and create it again" in cause["message"]
        adapters = [{"source": {"name": "a", "image": "b"}}]
        inference = {**before["inference"], "adapters": adapters}
        assert await ask(workspace(in_force=goal.hash, inference=inference), before=before) == {
            "allowed": True
        }
        wrong = workspace(2, in_force=goal.hash)
        assert (await ask(before, before=wrong))["allowed"], "what was in force is restored"
        assert (await ask(workspace(2), before=workspace()))["allowed"], "nothing is in force yet"


async def test_a_certificate_that_was_replaced_is_presented_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("controller.command.webhook._LOOK", 0.01)
    async with asked(tmp_path) as ask:
        assert (await ask(cluster()))["allowed"]
        _, other = issued_once("other", ("127.0.0.1",), now(), timedelta(days=1))
        (tmp_path / "tls.crt").write_bytes(other.chain)
        (tmp_path / "tls.key").write_bytes(other.key)
        presented = asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", ask.port))
        async with asyncio.timeout(60):
            while await presented != other.chain.decode():
                presented = asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", ask.port))


def test_the_environment_turns_it_on_as_for_kuberay(tmp_path: Path):
    (tmp_path / "namespace").write_text("ray-system\n")
    read = WebhookSettings.from_environment
    assert read({}) is None
    assert read({"ENABLE_WEBHOOKS": "false"}) is None
    mounted = read({"ENABLE_WEBHOOKS": "True"})
    assert mounted is not None
    assert (mounted.port, mounted.service) == (9443, "")
    own = {"ENABLE_WEBHOOKS": "true", "MANTA_WEBHOOK_SERVICE": "a", "MANTA_WEBHOOK_PORT": "10"}
    found = read(own, tmp_path)
    assert found is not None
    assert (found.port, found.service, found.namespace) == (10, "a", "ray-system")
    with pytest.raises(ConfigurationError, match="MANTA_WEBHOOK_PORT: '0' is no port"):
        read({**own, "MANTA_WEBHOOK_PORT": "0"}, tmp_path)
    with pytest.raises(ConfigurationError, match="MANTA_WEBHOOK_SERVICE: this process does not"):
        read(own, tmp_path / "nowhere")


def webhooks(namespace: str, *values: str) -> list[dict[str, Any]]:
    return rendered(CHART, "webhook.enabled=true", *values, namespace=namespace)


@pytest.mark.real_only
@pytest.mark.vital
@pytest.mark.timeout(180)
@needs_helm
async def test_kubectl_is_refused_and_the_operator_never_waits():
    async with real_world(REAL_KUBECONFIG, components=frozenset()) as world:
        chart = webhooks(world.namespace, f"watchNamespace={{{world.namespace}}}")
        configuration = only("ValidatingWebhookConfiguration", chart)
        (hook,) = configuration["webhooks"]
        service = hook["clientConfig"].pop("service")["name"]
        source = OwnCertificate(world.user, world.namespace, service, now, ("127.0.0.1",))
        kinds = kinds_of(KindSettings.from_environment(ALL, {}), None)
        server = WebhookServer(0, kinds, source, now)
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        name = configuration["metadata"]["name"]
        hook["failurePolicy"] = "Fail"
        hook["clientConfig"]["url"] = "https://127.0.0.1:9/validate"
        await world.user.request_json("POST", path, body=configuration)
        try:
            async with serving(server):
                where = {"url": f"https://127.0.0.1:{server.port}/validate"}
                found = await world.user.request_json("GET", f"{path}/{name}")
                found["webhooks"][0]["clientConfig"] |= where
                await world.user.request_json("PUT", f"{path}/{name}", body=found)
                await world.eventually(lambda: _is_refused(world), seconds=60)
                await _create(world, RAYCLUSTERS, cluster("good"))
                await _edits(world)
                await _renewed(world, source, service)
            await _beside_a_webhook_that_is_down(world)
        finally:
            await world.user.request_json("DELETE", f"{path}/{name}")


_BY_US = 'admission webhook "validation.manta.dev" denied the request: '


def redis_twice(name: str) -> dict[str, Any]:
    """A cluster with a problem that no rule of the definition can see."""
    body = cluster(name, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    (head,) = body["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    head["env"] = [{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}]
    return body


async def _create(world: World, resource: Any, body: dict[str, Any]) -> None:
    body["metadata"]["namespace"] = world.namespace
    await world.user.create(resource, world.namespace, body)


async def _is_refused(world: World) -> bool:
    """Whether the API server asks the webhook by now: at first it does not trust it."""
    try:
        await _create(world, RAYCLUSTERS, redis_twice(f"c-{uuid.uuid4().hex[:8]}"))
    except StatusError as error:
        return isinstance(error, Invalid) and _BY_US in str(error)
    return False


async def _edits(world: World) -> None:
    place = RAYCLUSTERS, world.namespace, "good"
    with pytest.raises(Invalid, match=f"{_BY_US}.*RAY_REDIS_ADDRESS"):
        await world.user.merge_patch(*place, {"spec": redis_twice("good")["spec"]})
    await world.user.merge_patch(*place, {"metadata": {"labels": {"a": "b"}}})


async def _renewed(world: World, source: OwnCertificate, service: str) -> None:
    """Spoil the certificate: another is made, and what trusted the first trusts both."""
    secret = await world.user.get_raw(SECRETS, world.namespace, service)
    first = base64.b64decode(secret["data"]["ca.crt"])
    secret["data"]["tls.crt"] = base64.b64encode(b"nonsense").decode()
    await world.user.replace(SECRETS, world.namespace, service, secret)
    again = await source.current()
    issued = x509.load_pem_x509_certificate(again.chain)
    both = await world.user.get_raw(SECRETS, world.namespace, service)
    authorities = x509.load_pem_x509_certificates(base64.b64decode(both["data"]["ca.crt"]))
    issued.verify_directly_issued_by(authorities[0])
    assert x509.load_pem_x509_certificate(first) == authorities[1]
    assert (await source.current()) == again
    del both["data"]["ca.crt"]
    await world.user.replace(SECRETS, world.namespace, service, both)
    assert (await source.current()) != again, "what nobody can trust is made anew"


async def _beside_a_webhook_that_is_down(world: World) -> None:
    """Neither labels nor a deletion wait for it; a specification does, as `Fail` says."""
    place = RAYCLUSTERS, world.namespace, "good"
    await world.user.merge_patch(*place, {"metadata": {"finalizers": ["example.com/a"]}})
    await world.user.delete(*place)
    await world.user.merge_patch(*place, {"metadata": {"finalizers": []}})
    with pytest.raises(NotFound):
        await world.user.get_raw(*place)
    with pytest.raises(StatusError, match="failed calling webhook"):
        await _create(world, RAYCLUSTERS, cluster("other"))


@pytest.mark.slow
@needs_helm
def test_the_chart_lets_the_operator_write_without_asking_it():
    chart = webhooks("ray-system", "serviceAccount.name=manta")
    (hook,) = only("ValidatingWebhookConfiguration", chart)["webhooks"]
    own, _ = hook["matchConditions"]
    assert '"system:serviceaccount:ray-system:manta"' in own["expression"]
    (container,) = only("Deployment", chart)["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    service = hook["clientConfig"]["service"]["name"]
    assert variables["MANTA_WEBHOOK_SERVICE"] == service
    (name,) = [
        each["metadata"]["name"]
        for each in chart
        if each["kind"] == "ValidatingWebhookConfiguration"
    ]
    (rights,) = [
        rule
        for each in chart
        if each["kind"] == "ClusterRole"
        for rule in each["rules"]
        if "admissionregistration.k8s.io" in rule["apiGroups"]
    ]
    assert rights["resourceNames"] == [name] == [f"{service}.ray-system"]


@pytest.mark.slow
@needs_helm
def test_with_cert_manager_the_certificate_is_mounted_where_the_operator_looks():
    chart = webhooks("ray-system", "webhook.certManager.enabled=true")
    pod = only("Deployment", chart)["spec"]["template"]["spec"]
    (mount,) = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "webhook"]
    assert mount["mountPath"] == str(WebhookSettings().folder)
    certificate = only("Certificate", chart)["spec"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == "webhook"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    (hook,) = only("ValidatingWebhookConfiguration", chart)["webhooks"]
    service = hook["clientConfig"]["service"]
    assert certificate["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    variables = [each["name"] for each in pod["containers"][0]["env"]]
    assert "MANTA_WEBHOOK_SERVICE" not in variables

"""The admission webhook: `kubectl apply` is refused what the operator would refuse to act on.

Each answer is that of the kind itself, for the object alone, in the words of its condition. An edit
may keep the problems that its object has, so that an invalid one can be mended step by step; that
of a valid object may be refused for what it changes. What the webhook cannot judge it admits: the
operator refuses to act on it later, as without a webhook.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from controller.apimachinery.certificates import Certificate, expiry, issued_once
from controller.apimachinery.validation import Problem
from controller.command.planning.snapshot import Snapshot
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from controller.kube.resources import SECRETS
from controller.kube.transport import JSON_PATCH
from controller.runtime.health import HttpListener
from controller.runtime.kind import Kind, ObjectUnreadable

_log = structlog.stdlib.get_logger("manta.webhook")

Json = dict[str, Any]

_LARGEST: Final = 8 * 1024**2
"""Bytes of a review: the API server sends an object of at most 3 MiB, before and after."""

_LIFETIME: Final = timedelta(days=365)
_RENEW: Final = timedelta(days=90)
"""A certificate of ours is replaced when it is valid for no longer than this."""

_FILES: Final = frozenset({"ca.crt", "tls.crt", "tls.key"})

_LOOK, _RETRY = 60.0, 5.0
"""Seconds until the certificate is looked at again, once there is one and before."""


class MountedCertificate:
    """A certificate that somebody else renews, such as cert-manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self) -> Certificate:
        """Read the files.

        Raises:
            OSError: there are none.
        """
        chain, key = await asyncio.gather(
            asyncio.to_thread((self._folder / "tls.crt").read_bytes),
            asyncio.to_thread((self._folder / "tls.key").read_bytes),
        )
        return Certificate(chain, key)


class OwnCertificate:
    """A certificate that the operator makes, renews, and keeps in a Secret for all its replicas.

    Any replica writes, whether it leads or not: a new one is ready only with a certificate. Who
    asks the webhook trusts a new one before it is presented, because its authority is added to
    that of the one before. Service and Secret have one name; the configuration of the webhooks is
    named `{service}.{namespace}`, as the chart does.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        service: str,
        wall: Callable[[], datetime],
        hosts: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._service = service
        self._wall = wall
        self._hosts = tuple(hosts) or (f"{service}.{namespace}.svc",)

    async def current(self) -> Certificate:
        """Return the certificate, renewed if need be, and let the API server trust it.

        Raises:
            KubeError: the API server refuses.
        """
        secret = await self._read()
        data = _decoded(secret)
        if not self._is_good(data):
            try:
                data = await self._renew(secret, data)
            except (AlreadyExists, Conflict):  # another replica was first
                data = _decoded(await self._read())
                if not self._is_good(data):
                    raise
        await self._be_trusted(data["ca.crt"])
        return Certificate(data["tls.crt"], data["tls.key"])

    async def _read(self) -> Json:
        try:
            return await self._client.get_raw(SECRETS, self._namespace, self._service)
        except NotFound:
            return {}

    def _is_good(self, data: Mapping[str, bytes]) -> bool:
        try:
            return data.keys() >= _FILES and expiry(data["tls.crt"]) - self._wall() > _RENEW
        except ValueError:  # somebody has written something else
            return False

    async def _renew(self, secret: Json, before: Mapping[str, bytes]) -> dict[str, bytes]:
        authority, issued = issued_once(self._service, self._hosts, self._wall(), _LIFETIME)
        trusted = before.get("ca.crt", b"").partition(b"-----END CERTIFICATE-----\n")
        data = {
            "ca.crt": authority + b"".join(trusted[:2]),
            "tls.crt": issued.chain,
            "tls.key": issued.key,
        }
        body: Json = {
            **secret,
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": secret.get("metadata", {"name": self._service}),
            "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
        }
        if secret:
            await self._client.replace(SECRETS, self._namespace, self._service, body)
        else:
            await self._client.create(SECRETS, self._namespace, body)
        _log.info("webhook.certificate", secret=f"{self._namespace}/{self._service}", renewed=True)
        return data

    async def _be_trusted(self, authorities: bytes) -> None:
        """Put the authorities into each webhook of the configuration that lacks them."""
        name = f"{self._service}.{self._namespace}"
        path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}"
        found: Json = await self._client.request_json("GET", path)
        bundle = base64.b64encode(authorities).decode()
        operations = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, each in enumerate(found.get("webhooks") or [])
            if each["clientConfig"].get("caBundle") != bundle
        ]
        if operations:
            version = found["metadata"]["resourceVersion"]
            unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            body = [unchanged, *operations]
            await self._client.request_json("PATCH", path, body=body, content_type=JSON_PATCH)


def _decoded(secret: Json) -> dict[str, bytes]:
    data: dict[str, str] = secret.get("data") or {}
    return {name: base64.b64decode(text) for name, text in data.items()}


class WebhookServer(HttpListener):
    """A `manager.Runnable` that answers the API server's reviews; no kind is asked to plan."""

    name = "webhook server"

    def __init__(
        self,
        port: int,
        kinds: Sequence[Kind[Any]],
        source: MountedCertificate | OwnCertificate,
        wall: Callable[[], datetime],
    ) -> None:
        super().__init__("", port, "MANTA_WEBHOOK_PORT")
        self._kinds = {(kind.primary.group, kind.primary.plural): kind for kind in kinds}
        self._source = source
        self._wall = wall
        self._problem: str | None = "has no certificate yet"

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped. Handshakes fail until there is a certificate.

        Raises:
            OSError: the port is taken.
        """
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_post("/{path:validate.*}", self._review)  # KubeRay's three, too
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        keeping = asyncio.create_task(self._keep_certificate(tls), name="webhook's certificate")
        try:
            await self.serve_application(application, ready, tls)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    def unready(self) -> str | None:
        """Return why the webhook cannot answer, None if it can."""
        return self._problem

    async def _keep_certificate(self, tls: ssl.SSLContext) -> None:
        presented: Certificate | None = None
        while True:
            try:
                certificate = await self._source.current()
                if certificate != presented:
                    certificate.load_into(tls)
                    presented = certificate
                self._problem = None
            except (KubeError, OSError, ValueError) as error:
                if presented is None:
                    self._problem = f"has no certificate: {error}"
                _log.warning("webhook.certificate", error=str(error))
            await asyncio.sleep(_LOOK if presented else _RETRY)

    async def _review(self, request: web.Request) -> web.Response:
        try:
            asked = (await request.json())["request"]
            answer = {"uid": asked["uid"], **self._answer(asked)}
        except (ValueError, KeyError, TypeError) as error:
            raise web.HTTPBadRequest(text=f"this is no AdmissionReview: {error!r}\n") from error
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**review, "response": answer})

    def _answer(self, asked: Json) -> Json:
        resource, obj, before = asked["resource"], asked.get("object"), asked.get("oldObject")
        kind = self._kinds.get((resource["group"], resource["resource"]))
        if kind is None or obj is None or obj["metadata"].get("deletionTimestamp"):
            return {"allowed": True}
        try:
            found = self._problems(kind, obj)
            kept = self._problems(kind, before) if found and before else ()
            found = found or (self._edit_problems(kind, before, obj) if before else ())
        except Exception as error:  # noqa: BLE001  a fault of ours must not stop anybody's edits
            _log.exception("webhook.failed", kind=kind.primary.kind)
            return {"allowed": True, "warnings": [f"Manta could not check this: {error!r}"]}
        new = [each for each in found if each not in kept]
        if not new:
            kept_on = {"warnings": [str(each) for each in found]} if found else {}
            return {"allowed": True, **kept_on}
        message = ". Also ".join(map(str, new))
        _log.info("webhook.refused", kind=kind.primary.kind, key=_key(obj), problem=message)
        causes = [
            {"reason": "FieldValueInvalid", "field": each.field, "message": each.message}
            for each in new
        ]
        details = {"group": kind.primary.group, "kind": kind.primary.kind, "causes": causes}
        status = {"code": 422, "reason": "Invalid", "message": message, "details": details}
        return {"allowed": False, "status": {**status, "status": "Failure"}}

    def _edit_problems(self, kind: Kind[Any], before: Json, obj: Json) -> tuple[Problem, ...]:
        """Return what the kind finds wrong with an edit of an object."""
        views: list[Any] = [
            self._alone(kind, each).get(kind.primary, _key(each)) for each in (before, obj)
        ]
        problem = kind.edit_problem(*views) if all(views) else None
        return problem.all if problem is not None else ()

    def _problems(self, kind: Kind[Any], obj: Json) -> tuple[Problem, ...]:
        """Return what the kind finds wrong with an object."""
        try:
            observation = kind.observe(_key(obj), self._alone(kind, obj))
        except ObjectUnreadable as error:
            return (Problem("object", str(error)),)
        problem = None if observation is None else kind.problem(observation)
        return problem.all if problem is not None else ()

    def _alone(self, kind: Kind[Any], obj: Json) -> Snapshot:
        """Return an object that is alone in the world."""
        objects = Snapshot([kind], now=self._wall())
        objects.add(kind.primary, [obj])
        return objects


def _key(obj: Json) -> str:
    metadata: Json = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"

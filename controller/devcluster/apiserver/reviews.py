"""Access reviews: requests that store nothing and ask whether something would be allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.audit import Attributes
from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.negotiation import content_type, decode_object

if TYPE_CHECKING:
    from controller.devcluster.apiserver.audit import Audit
    from controller.devcluster.apiserver.exchange import Request
    from controller.devcluster.apiserver.paths import ResourcePath

REVIEWS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "subjectaccessreviews": "SubjectAccessReview",
}
GROUP = "authorization.k8s.io"


def review(request: Request, where: ResourcePath, audit: Audit) -> Json | None:
    """The reviewed object, or None if the request is no access review."""
    if (request.method, where.group, where.plural in REVIEWS) != ("POST", GROUP, True):
        return None
    object_ = decode_object(request.body, content_type(request.headers))
    spec: Json = child(object_, "spec")
    asked: Json = child(spec, "resourceAttributes")
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += "/" + asked["subresource"]
    attributes = Attributes(
        spec.get("user") or request.user,
        request.user_agent,
        asked.get("verb", ""),
        asked.get("group", ""),
        resource,
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
    allowed = audit.allows is None or audit.allows(attributes)
    return {
        "kind": REVIEWS[where.plural],
        "apiVersion": f"{GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": allowed},
    }

"""Finds the verb of a request by its method and path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.devcluster.apiserver.options.query import flag
from controller.devcluster.apiserver.protocol.status import bad_request, method_not_allowed

if TYPE_CHECKING:
    from controller.devcluster.apiserver.messages import ApiRequest
    from controller.devcluster.apiserver.protocol.paths import ResourcePath

WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
"""Verbs of methods with an object in their body."""


def verb_of(request: ApiRequest, where: ResourcePath, *, custom: bool) -> str:
    """Return the verb of a request; as upstream, odd paths may create custom resources.

    Raises:
        ApiError: 400 or 405.
    """
    if request.method == "GET":
        if where.name:
            return "get"
        return "watch" if flag(request.query, "watch") else "list"
    if request.method == "DELETE":
        return "delete" if where.name else "deletecollection"
    verb = WRITES.get(request.method)
    misplaced = bool(where.name) == (verb == "create" and not where.subresource)
    if verb is None or (misplaced and not custom):
        raise method_not_allowed()
    if misplaced and verb != "create":
        raise bad_request("name must be provided")
    return verb

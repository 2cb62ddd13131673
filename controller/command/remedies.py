"""Adds to an error of the API server what a user of a command can do about it."""

from __future__ import annotations

from controller.kube.errors import Forbidden, KubeError, NotSent, PathNotFound, Paused, Unauthorized


def with_remedy(error: KubeError) -> str:
    """Return the message of the error, and the remedy where there is a usual one."""
    match error:
        case Paused():
            return str(error)
        case NotSent():
            remedy = "check that the cluster runs, and that --kubeconfig and --context choose it"
        case Unauthorized():
            remedy = "renew the credentials of this context"
        case Forbidden():
            remedy = "ask for this right, or choose another account with --context"
        case PathNotFound():
            remedy = (
                "install the definitions: manta crds | kubectl apply --server-side -f - (those of "
                "Workspaces: manta crds --kind workspace), or choose another cluster with --context"
            )
        case _:
            return str(error)
    return f"{error}; {remedy}"

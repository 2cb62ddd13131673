"""Explains why caches are not complete, and what to do about it (CTL-5).

Without it an operator whose caches stay empty would wait silently. One paragraph names the verb,
the resource, the scope, the server's message and the remedy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from informers import ConnectionRefused, Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.runtime.caches.cache import Cache

_CONVERSION: Final = "conversion webhook for "


def failing(cache: Cache) -> str:
    """Return one sentence about one cache, for the readiness endpoint."""
    seen = cache.informer.statistics()
    if cache.last_error is None:
        return f"cannot list {seen.description} yet: no answer so far"
    return f"cannot list {seen.description}: {cache.last_error}"


def explain(missing: Sequence[Cache], seconds: float) -> str:
    """Return a paragraph about all of them: what failed, why, and the remedy.

    None is missing if the server did not say which of the optional ones there are to be.
    """
    if not missing:
        return (
            f"Gave up after {seconds:.0f} s because the API server did not say which resources it "
            "has. The lines discovery.failed of the log quote it: check it and the proxies before "
            "it."
        )
    sentences = [f"Gave up after {seconds:.0f} s because caches are not complete."]
    sentences += [_sentence(failing(cache)) for cache in missing[:5]]
    if len(missing) > 5:
        sentences.append(f"The same is true of {len(missing) - 5} more.")
    remedies = dict.fromkeys(_remedy(cache) for cache in missing)
    return " ".join([*sentences, *remedies])


def _sentence(text: str) -> str:
    """Return the text with a capital and a full stop; the server's message stays unchanged."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _remedy(cache: Cache) -> str:
    resource = cache.scope.resource
    namespace = cache.scope.namespace
    match cache.last_error:
        case Failed(status=401):
            return "The API server does not accept the credentials: renew them."
        case Failed(status=403):
            role = f"Role in namespace {namespace}" if namespace else "ClusterRole"
            return (
                f'Grant the verbs "list" and "watch" on {resource.plural} of API group '
                f'"{resource.group}" to the operator\'s service account by a {role}.'
            )
        case Failed(status=404) if resource.group == "ray.io":
            return "Install the definitions: manta crds | kubectl apply --server-side -f -"
        case Failed(status=404):
            return f"The API server does not serve {resource} in version {resource.version}."
        case ConnectionRefused():
            return "The API server cannot be reached: check the address and the network."
        case _:
            return _remedy_by_message(cache)


def _remedy_by_message(cache: Cache) -> str:
    if _CONVERSION not in str(cache.last_error):
        return "See the log for each attempt."
    return (
        f"The conversion webhook of the definition of {cache.scope.resource} does not answer: "
        "repair it, or remove spec.conversion from the definition."
    )

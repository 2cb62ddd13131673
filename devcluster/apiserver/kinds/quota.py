"""Resource quotas: counts usage of namespaces, and refuses objects beyond a limit.

The server itself updates `status.used` with every write of a counted object. Quotas with scopes are
stored but limit nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.apimachinery.quantity import parse_quantity
from devcluster.apiserver.objects import Json, child, entries
from devcluster.apiserver.resources import ApiResource
from devcluster.apiserver.status import forbidden
from devcluster.apiserver.store import ObjectStore, StoredEvent

TABLE = "resourcequotas"
_PLAIN_COUNTS = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", TABLE, "secrets", "services"}
)
"""Resources that are counted under their own name, besides `count/<name>`."""
_MUST_BE_SAID = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory")
)
"""Resources that every container must declare if a quota limits them."""
_FINISHED = frozenset({"Failed", "Succeeded"})


class Quotas:
    """The quotas of all namespaces; follows the store's writes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._keys: dict[str, list[str]] = {}
        store.on_write.append(self._follow)

    def admit(self, resource: ApiResource, namespace: str, object_: Json) -> None:
        """Refuse a new object that a quota of its namespace does not allow.

        Raises:
            ApiError: 403.
        """
        for key in self._keys.get(namespace, ()):
            quota = self._store.table(TABLE).items[key].object
            why = _refusal(quota, resource.table, object_)
            if why:
                raise forbidden(resource.name, object_["metadata"].get("name", ""), why)

    def _follow(self, event: StoredEvent) -> None:
        namespace = event.key.partition("/")[0]
        if event.table == TABLE:
            self._quota_changed(event, namespace)
        if namespace not in self._keys:
            return
        change: Json = {}
        if event.type != "DELETED":
            change = _usage(event.table, event.current.object)
        if event.previous is not None:
            change = _sum(change, _usage(event.table, event.previous.object), times=-1)
        if any(parse_quantity(amount) for amount in change.values()):
            for key in self._keys[namespace]:
                self._update(key, lambda used: _sum(used, change))

    def _quota_changed(self, event: StoredEvent, namespace: str) -> None:
        keys = [key for key in self._store.table(TABLE).keys(namespace) if self._limits(key)]
        if keys:
            self._keys[namespace] = keys
        else:
            self._keys.pop(namespace, None)
        before = event.previous.object["spec"] if event.previous else None
        if event.key in keys and event.current.object["spec"] != before:
            self._update(event.key, lambda _: self._count(namespace))

    def _limits(self, key: str) -> bool:
        spec: Json = self._store.table(TABLE).items[key].object["spec"]
        return not spec.get("scopes") and not spec.get("scopeSelector")

    def _count(self, namespace: str) -> Json:
        used: Json = {}
        for name, table in self._store.tables.items():
            for _, stored in table.now(namespace):
                used = _sum(used, _usage(name, stored.object))
        return used

    def _update(self, key: str, change: Callable[[Json], Json]) -> None:
        stored = self._store.table(TABLE).items.get(key)
        if stored is None:
            return
        quota = stored.fresh()
        hard: Json = child(quota["spec"], "hard")
        used = change(child(child(quota, "status"), "used"))
        status = {"hard": hard, "used": {name: used.get(name, "0") for name in hard}}
        if status != quota.get("status"):
            self._store.put(TABLE, key, quota | {"status": status})


def _refusal(quota: Json, table: str, object_: Json) -> str:
    """Return why a quota refuses an object; empty if it does not."""
    name, hard = quota["metadata"]["name"], child(quota["status"], "hard")
    used = child(quota["status"], "used")
    if missing := _missing(table, object_, hard):
        return f"failed quota: {name}: must specify {'; '.join(missing)}"
    asked = {
        what: amount for what, amount in _usage(table, object_).items() if parse_quantity(amount)
    }
    exceeded = [
        what
        for what in sorted(asked.keys() & hard.keys())
        if _nanos(used[what]) + _nanos(asked[what]) > _nanos(hard[what])
    ]
    if not exceeded:
        return ""
    columns = {"requested": asked, "used": used, "limited": hard}
    said = (
        f"{column}: {','.join(f'{what}={amounts[what]}' for what in exceeded)}"
        for column, amounts in columns.items()
    )
    return f"exceeded quota: {name}, {', '.join(said)}"


def _missing(table: str, object_: Json, hard: Json) -> list[str]:
    if table != "pods":
        return []
    containers: list[Json] = entries(object_["spec"], "containers")
    silent = {
        what: [one["name"] for one in containers if what not in _container_usage(one)]
        for what in sorted(_MUST_BE_SAID & hard.keys())
    }
    return [f"{what} for: {','.join(names)}" for what, names in silent.items() if names]


def _usage(table: str, object_: Json) -> Json:
    """Return the usage of an object, by the quotas' resource names."""
    usage: Json = {f"count/{table}": "1"}
    if table == "pods":
        if child(object_, "status").get("phase") not in _FINISHED:
            usage |= {"pods": "1"} | _pod_usage(object_["spec"])
    elif table in _PLAIN_COUNTS:
        usage[table] = "1"
    if table == "persistentvolumeclaims":
        requests = child(child(object_["spec"], "resources"), "requests")
        usage["requests.storage"] = requests.get("storage", "0")
    return usage


def _pod_usage(spec: Json) -> Json:
    """Return the sum of the containers, or the largest init container if that is more."""
    total = _container_usage({"resources": {"requests": child(spec, "overhead")}})
    for container in entries(spec, "containers"):
        total = _sum(total, _container_usage(container))
    for container in entries(spec, "initContainers"):
        for what, amount in _container_usage(container).items():
            total[what] = max(total.get(what, "0"), amount, key=_nanos)
    return total


def _container_usage(container: Json) -> Json:
    resources: Json = child(container, "resources")
    usage: Json = {}
    for what, amount in child(resources, "requests").items():
        usage[f"requests.{what}"] = amount
        if what in {"cpu", "memory", "ephemeral-storage"}:
            usage[what] = amount
    return usage | {f"limits.{what}": amount for what, amount in child(resources, "limits").items()}


def _sum(left: Mapping[str, str], right: Mapping[str, str], *, times: int = 1) -> Json:
    total = dict(left)
    for what, amount in right.items():
        total[what] = str(parse_quantity(total.get(what, "0")) + parse_quantity(amount) * times)
    return total


def _nanos(amount: str) -> int:
    return parse_quantity(amount).nanos

"""Users of the API server, and the groups that follow from their names."""

from __future__ import annotations

from dataclasses import dataclass

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user.

    Attributes:
        name: such as `kubernetes-admin` or `system:serviceaccount:NAMESPACE:NAME`.
        groups: all groups of the user.
    """

    name: str
    groups: tuple[str, ...]

    @property
    def is_admin(self) -> bool:
        """True if everything is allowed."""
        return MASTERS in self.groups


ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))


def user_named(name: str, *groups: str) -> User:
    """Return the user of that name, in `groups` and those of every such user."""
    if name.startswith(_ACCOUNT) and name.count(":") == 3:
        namespace = name.split(":")[2]
        groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(name, (*groups, AUTHENTICATED))


def service_account(namespace: str, name: str) -> User:
    """Return the user of a service account."""
    return user_named(f"{_ACCOUNT}{namespace}:{name}")

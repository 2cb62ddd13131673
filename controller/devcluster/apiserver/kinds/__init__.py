"""The built-in kinds: a table, and the behaviour of those that have some of their own."""

from controller.devcluster.apiserver.kinds.builtin import builtin_resources
from controller.devcluster.apiserver.kinds.quota import Quotas

__all__ = ["Quotas", "builtin_resources"]

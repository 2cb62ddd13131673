"""The built-in kinds: a table, and strategies for kinds with special behaviour."""

from controller.devcluster.apiserver.kinds.builtin import builtin_resources
from controller.devcluster.apiserver.kinds.quota import Quotas

__all__ = ["Quotas", "builtin_resources"]

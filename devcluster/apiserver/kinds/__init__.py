"""The built-in kinds: a table, and strategies for kinds with special behaviour."""

from devcluster.apiserver.kinds.builtin import builtin_resources
from devcluster.apiserver.kinds.quota import Quotas

__all__ = ["Quotas", "builtin_resources"]

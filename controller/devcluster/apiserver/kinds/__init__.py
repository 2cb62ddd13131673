"""The built-in kinds: a table, and the behaviour of those that have some of their own."""

from controller.devcluster.apiserver.kinds.builtin import builtin_resources

__all__ = ["builtin_resources"]

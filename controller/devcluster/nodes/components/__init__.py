"""The common parts of components: caches, a control loop, and dependencies."""

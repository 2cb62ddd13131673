"""One reconcile: observe, plan, execute, and the controller that runs them key by key."""

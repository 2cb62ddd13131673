"""What every component needs: caches, a control loop, and its dependencies."""

"""The simulated Ray of simulated pods: dashboards, Serve, nodes and submitters, in memory."""

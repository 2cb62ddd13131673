"""The demos of RayServices: applications of real Ray Serve, their client, and its requests."""

"""RayServices: Serve applications on Ray clusters that are replaced safely."""

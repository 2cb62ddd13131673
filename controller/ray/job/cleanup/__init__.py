"""What is deleted after a RayJob has ended or was deleted itself."""

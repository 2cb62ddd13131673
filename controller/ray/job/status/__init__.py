"""What a RayJob says about itself."""

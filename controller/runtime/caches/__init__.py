"""The informers of a controller, and how their events become keys of its queue."""

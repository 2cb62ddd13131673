"""Objects that a Ray kind owns besides its pods: desired fields, drift and writes."""

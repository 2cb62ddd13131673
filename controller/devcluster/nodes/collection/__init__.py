"""What goes with other objects: garbage, namespaces and protected volume claims."""

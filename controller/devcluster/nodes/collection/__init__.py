"""Objects that disappear with others: garbage, namespaces and protected volume claims."""

"""The CustomResourceDefinitions of the Ray kinds, generated from complete schemas."""

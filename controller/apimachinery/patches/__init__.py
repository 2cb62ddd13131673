"""JSON patches and JSON merge patches, applied and found."""

"""Values of single fields and annotations, read from what users write into them."""

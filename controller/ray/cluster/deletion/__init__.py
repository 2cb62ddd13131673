"""What happens to a cluster that is deleted while its state lies in Redis."""

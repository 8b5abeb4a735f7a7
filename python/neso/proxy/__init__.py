"""What callables are given."""

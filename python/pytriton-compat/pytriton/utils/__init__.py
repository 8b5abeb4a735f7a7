"""The names of pytriton.utils."""

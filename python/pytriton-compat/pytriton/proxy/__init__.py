"""The names of pytriton.proxy."""

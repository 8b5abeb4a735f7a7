"""The names of pytriton.server."""

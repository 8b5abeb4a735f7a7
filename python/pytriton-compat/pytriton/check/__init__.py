"""The names of pytriton.check that scripts use."""

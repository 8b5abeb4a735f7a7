"""Programs of bind() calls, run with PyTriton and with Neso's package of the same interface."""

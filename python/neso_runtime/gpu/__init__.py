"""Memory of GPUs: the driver (``cuda``), and tensors that go from process to process there (``devices``)."""

"""Models of Python frameworks, run by the worker: torch, tensorflow, scikit-learn, TensorRT.

``host`` is what they have in common, ``specs`` the inputs and outputs of a model and what they make of a configuration;
each framework is a module with a ``Loader``.
"""

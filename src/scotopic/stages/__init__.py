"""The stages of the method: each module has a stage's equations, a float64 reference, and its one implementation.

Stages are written once for all devices: they take a :class:`~scotopic.backends.protocol.Backend` and its arrays. Which
stages follow each other, :mod:`scotopic.pipelines` says.
"""

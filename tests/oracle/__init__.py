"""The oracle: TensorFlow itself says where each gradient op belongs.

Every model is built twice with the same names. Of the plain build the engine sees one
traced step and names a device for each gradient op; the build with colocated
gradients shows where TensorFlow then puts it.

============= ===============================================================
``models``    small training steps, by theme
``knowledge`` which ops compute gradients, noted apart from ``capture``
``recording`` both builds of a model into a sample; needs TensorFlow
``twins``     which node of one build is which of the other
``samples``   what is kept of a model, in memory and in a folder
``scoring``   the engine's answers against the truth; needs no TensorFlow
``tables``    scores as text and JSON
============= ===============================================================

``python -m tests.oracle`` runs all of it and exits with 1 when a limit is missed.
With ``--unseen`` it runs models that no rule was made after, to show whether the rules
hold for programs of another shape.
"""

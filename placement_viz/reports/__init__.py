"""Results into text: for people (``sentences``, ``text``), programs (``document``)."""

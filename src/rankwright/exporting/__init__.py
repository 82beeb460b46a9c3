"""Models for other programs: written in their formats, read back and checked against the model."""

"""Being here puts this folder on the path: tests of every folder can import the helpers in it."""

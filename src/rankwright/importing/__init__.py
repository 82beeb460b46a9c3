"""Models of other libraries, read from their files and held as models of this package.

The files are parsed here: nothing in them is run, and no other library is needed. What a model of this package cannot
hold exactly is refused.
"""

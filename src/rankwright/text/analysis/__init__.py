"""From a text to its terms: words, stop words, analysers, and the compiled tokeniser."""

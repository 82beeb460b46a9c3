"""The index: building it, storing it, and the views of its postings that retrieval functions score."""

"""A package as somebody else would write it: bcdm knows nothing of it."""

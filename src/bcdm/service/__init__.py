"""A service over HTTP: jobs that are not lost, workers that may die, and a page."""

"""Benchmarks: each a command that writes records."""

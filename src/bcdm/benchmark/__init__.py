"""Exams of methods, samplers and models: each a command that writes records."""

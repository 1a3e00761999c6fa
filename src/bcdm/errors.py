"""Errors a user can cause, each with one line that names the fix."""

__all__ = ["DtypeError", "InputError", "ModelError", "ShapeError"]


class InputError(ValueError):
    """An input that cannot be used; the message says what to change."""


class ShapeError(InputError):
    """Shapes that do not fit together."""


class DtypeError(InputError):
    """Number types that do not fit together."""


class ModelError(InputError):
    """A model that cannot be used, or that fails on an input that is right."""

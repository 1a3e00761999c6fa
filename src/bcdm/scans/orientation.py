"""Which way up a volume is shown, by its position in space."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["STORED", "Turn", "find_turn"]

_SQUARE = 1.5  # longest side of a pixel over its shortest, in an image worth making
_COMPACT = 2.0  # the same of the whole image


class Turn(NamedTuple):
    """How the axes of a file become rows, columns and slices.

    Attributes:
        axes: The file's axes that are rows, columns and slices.
        flipped: Whether each of rows, columns and slices runs against the file.
        words: What is seen.
    """

    axes: tuple[int, int, int]
    flipped: tuple[bool, bool, bool]
    words: str

    def undo(self, shown: NDArray[Any]) -> NDArray[Any]:
        """A view with the file's axes of an array (rows, columns, slices)."""
        backward = tuple(slice(None, None, -1 if flip else 1) for flip in self.flipped)
        return shown[backward].transpose(np.argsort(self.axes))


STORED = Turn((0, 1, 2), (False, False, False), "as stored")


def find_turn(affine: NDArray[np.float64], shape: tuple[int, int, int]) -> Turn | None:
    """The turn that shows axial slices, anterior at the top and the subject's left on the left.

    Slices keep the order of the file. They are axial if the third axis is the one nearest to
    feet-to-head; if another is, only where axial images have nearly square pixels and a compact
    field, as those of a sagittal 3D scan have. Stacks of thick sagittal or coronal slices stay as
    stored.

    Args:
        affine: From voxels to millimetres toward right, anterior and superior.
        shape: That of the volume.

    Returns:
        None if the affine gives the axes no directions.
    """
    from nibabel import orientations

    find_directions: Any = orientations.io_orientation
    if not bool(np.isfinite(affine).all()):
        return None
    try:
        directions = find_directions(affine)
    except np.linalg.LinAlgError:
        return None
    if sorted(directions[:, 0]) != [0, 1, 2]:
        return None
    across, front, up = (int(axis) for axis in np.argsort(directions[:, 0]))
    sides = np.linalg.norm(affine[:3, :3], axis=0)
    pixel, field = sides[[across, front]], (sides * shape)[[across, front]]
    is_image = pixel.max() <= _SQUARE * pixel.min() and field.max() <= _COMPACT * field.min()
    if up != 2 and not (is_image and shape[2] > 1):
        return STORED._replace(words="as stored, slices are not axial")
    is_reverse = directions[:, 1] < 0
    return Turn(
        (front, across, up),
        (not is_reverse[front], bool(is_reverse[across]), False),
        "axial, anterior at the top, left on the left",
    )

import numpy as np
import pytest

from bcdm.coils import find_centre
from bcdm.coils.calibration import crop_centre
from bcdm.errors import ShapeError


def test_lines_in_the_middle_are_found_with_their_whole_length() -> None:
    mask = np.zeros((32, 40), bool)
    mask[:, ::4] = True
    mask[:, 17:23] = True  # the origin is at 20; 16 and 24 are sampled, too
    assert find_centre(mask) == (32, 6)
    assert find_centre(mask.T) == (6, 32)


def test_a_box_and_everything_and_nothing() -> None:
    mask = np.zeros((31, 40), bool)
    assert find_centre(mask) == (0, 0)
    mask[11:20, 14:26] = True  # 9 rows about 15, 12 columns about 20
    assert find_centre(mask) == (9, 12)
    assert find_centre(np.ones((31, 40), bool)) == (31, 40)


def test_a_gap_at_the_origin_leaves_nothing() -> None:
    mask = np.ones((8, 8), bool)
    mask[4, 4] = False
    assert find_centre(mask) == (0, 0)
    with pytest.raises(ShapeError, match="rows, columns"):
        find_centre(mask[None])


@pytest.mark.parametrize("whole", [7, 8])
@pytest.mark.parametrize("side", [3, 4])
def test_the_origin_stays_in_the_middle(whole: int, side: int) -> None:
    line = np.zeros((whole, whole))
    line[whole // 2, whole // 2] = 1
    assert crop_centre(line, (side, side))[side // 2, side // 2] == 1

"""What each receive coil sees: maps of sensitivity, from a scan itself or from a body coil."""

from bcdm.coils.body import estimate_by_body
from bcdm.coils.calibration import find_centre
from bcdm.coils.espirit import estimate_maps
from bcdm.coils.known import extend_maps, read_maps

__all__ = ["estimate_by_body", "estimate_maps", "extend_maps", "find_centre", "read_maps"]

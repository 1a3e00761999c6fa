"""Scans: files on disk to what they hold, and results to files in the input's own format."""

from bcdm.scans.kspace import crop_kspace, find_sampled, remove_oversampling
from bcdm.scans.limits import LIMIT_BYTES, Limits
from bcdm.scans.provenance import read_provenance
from bcdm.scans.reading import read_mask, read_scan
from bcdm.scans.scan import Results, Scan
from bcdm.scans.writing import check_results, write_results

__all__ = [
    "LIMIT_BYTES",
    "Limits",
    "Results",
    "Scan",
    "check_results",
    "crop_kspace",
    "find_sampled",
    "read_mask",
    "read_provenance",
    "read_scan",
    "remove_oversampling",
    "write_results",
]

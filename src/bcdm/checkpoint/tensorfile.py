"""Tensors as files: the same bits for the same content."""

import json
from pathlib import Path

from safetensors.torch import save as pack
from torch import Tensor

from bcdm.files import replacing

__all__ = ["write_tensors"]


def write_tensors(
    path: Path, tensors: dict[str, Tensor], header: dict[str, str] | None = None
) -> None:
    """Writes a safetensors file with the usual permissions and the same bits for the same content.

    The library's own is readable by its owner alone, and its header comes in any order.
    """
    packed = pack(tensors, header)
    length = int.from_bytes(packed[:8], "little")
    ordered = json.dumps(json.loads(packed[8 : 8 + length]), sort_keys=True, separators=(",", ":"))
    # Tensors start at a multiple of 8 bytes; the offsets count from there.
    head = ordered.encode().ljust(-(-len(ordered.encode()) // 8) * 8)
    with replacing(path) as partial:
        partial.write_bytes(len(head).to_bytes(8, "little") + head + packed[8 + length :])

"""Clean images for training: sources, splits by subject, preparation and order."""

from bcdm.data.images import ArrayFile, HDF5File, ImageFolder, ImageSource, open_images
from bcdm.data.order import Batch, ImageBatches, sample_counters, sample_index, shard
from bcdm.data.preparation import Augmentation, Preparation
from bcdm.data.splits import (
    DEFAULT_FRACTIONS,
    Subset,
    assign_splits,
    select_split,
    split_by_subject,
)

__all__ = [
    "DEFAULT_FRACTIONS",
    "ArrayFile",
    "Augmentation",
    "Batch",
    "HDF5File",
    "ImageBatches",
    "ImageFolder",
    "ImageSource",
    "Preparation",
    "Subset",
    "assign_splits",
    "open_images",
    "sample_counters",
    "sample_index",
    "select_split",
    "shard",
    "split_by_subject",
]

"""An example of every command, which its help shows; a test holds them to the options there are."""

import click

__all__ = ["EXAMPLES", "show_examples"]

EXAMPLES = {
    "": "bcdm demo --out demo",
    "archive": "bcdm archive run scans.zarr out --model ixi64-mri-scanner --workers 4",
    "benchmark": "bcdm benchmark calls ixi64-mri --limit 16 --calls 10,20",
    "data": "bcdm data ixi /my/IXI-T1 /my/data",
    "reconstruct": "bcdm reconstruct scan.h5 --model brain-mri -o out",
    "inspect": "bcdm inspect scan.h5 --mask mask.npy",
    "verify": "bcdm verify out --input scan.h5",
    "feature": "bcdm feature out --box 3,20:28,30:38",
    "demo": "bcdm demo --out demo",
    "doctor": "bcdm doctor",
    "models": "bcdm models",
    "settings": "bcdm settings ixi64-mri.yaml",
    "prepare": "bcdm prepare /my/raw/scans prepared --size 128 128",
    "data ixi": "bcdm data ixi /my/IXI-T1 /my/data",
    "data faces": "bcdm data faces /my/portraits /my/data",
    "train": "bcdm train faces64-inpaint.yaml --set name=mine --data /my/data",
    "specialise": "bcdm specialise ixi64-mri --operator mask.npy --noise-std 0.02 --data /my/data",
    "evaluate": "bcdm evaluate faces64-inpaint --limit 16 --json records.json",
    "calibrate": "bcdm calibrate runs/mine/model --limit 200",
    "archive run": "bcdm archive run scans.zarr out --model ixi64-mri-scanner --workers 4",
    "archive status": "bcdm archive status out",
    "archive verify": "bcdm archive verify out --draw 10",
    "archive export": "bcdm archive export out means.h5 --format hdf5 --array mean",
    "serve": "bcdm serve --model ixi64-mri-scanner --port 8000",
    "benchmark moments": "bcdm benchmark moments --smoke",
    "benchmark learned": "bcdm benchmark learned --json learned.json",
    "benchmark overhead": "bcdm benchmark overhead --smoke",
    "benchmark archive": "bcdm benchmark archive --smoke",
    "benchmark family": "bcdm benchmark family families/mri64.cases.yaml",
    "benchmark lesions": "bcdm benchmark lesions ixi64-mri --limit 20 --radius 2",
    "benchmark scans": "bcdm benchmark scans --limit 2 --accelerations 4",
    "benchmark masks": "bcdm benchmark masks ixi64-mri-scanner --draws 200",
    "benchmark patterns": "bcdm benchmark patterns ixi64-mri-scanner --rival ixi64-mri",
    "benchmark service": "bcdm benchmark service --smoke",
    "benchmark trust": "bcdm benchmark trust ixi64-mri --limit 40",
    "benchmark noise": "bcdm benchmark noise ixi64-mri --limit 40",
    "benchmark calls": "bcdm benchmark calls ixi64-mri --limit 16 --calls 10,20",
    "benchmark deepinv": "bcdm benchmark deepinv --only MRI --json deepinv.json",
    "benchmark mixture": "bcdm benchmark mixture --method mypackage.methods:Mine",
    "benchmark paper": "bcdm benchmark paper --task inpaint --out inpaint --smoke",
    "study": "bcdm study parameterisation/mri.yaml --out study --smoke",
    "curves": "bcdm curves runs/mine/log.jsonl -o curves.png",
}


def show_examples(command: click.Command, path: tuple[str, ...] = ()) -> None:
    """Puts examples at the end of the help of a command, and of all below a group."""
    if example := EXAMPLES.get(" ".join(path)):
        shown = f"\b\nExample:\n  {example}"
        command.epilog = f"{shown}\n\n{command.epilog}" if command.epilog else shown
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            show_examples(inner, (*path, name))

#!/usr/bin/env bash
# An archive by an array job of Slurm:  sbatch slurm.sh INPUT OUT MODEL
#
# Parts may be killed, repeated, or run at the same time on the same shards. To go on after
# failures, submit it again: what is finished is skipped. To use another number of parts, set
# PARTS and --array alike; finished shards stay finished.
#
#SBATCH --job-name=bcdm-archive
#SBATCH --array=0-99
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=3G
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail

exec bcdm archive run "$1" "$2" --model "$3" \
  --part "$SLURM_ARRAY_TASK_ID/${PARTS:-100}" --workers "${SLURM_CPUS_PER_TASK:-1}"

#!/usr/bin/env bash
# One VBMC run per task of a job array, all into one shared directory:
#   sbatch --array=0-9 examples/slurm_array.sh
# A task that is killed can be submitted again: it resumes from its journal. Afterwards:
#   vbstack status results && vbstack stack results
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=04:00:00
set -euo pipefail
export OMP_NUM_THREADS=1
vbstack run "${PROBLEM:-examples/fit_from_log_density.py:problem}" \
  --out "${OUT:-results}" --index "${SLURM_ARRAY_TASK_ID:?run me as a job array}" --seed "${SEED:-0}" \
  ${OPTIONS:-}

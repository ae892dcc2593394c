#!/bin/bash
# One Ray cluster on the nodes of a Slurm job, and one training on it:
#   sbatch deploy/slurm.sh algo.iterations=400 hydra.run.dir=runs/slurm
# The folder must be shared by the nodes. Submitted again with the same hydra.run.dir, the training
# goes on from its last whole checkpoint (resume=auto below); so it does after a requeue.
#SBATCH --job-name=gpuyard
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=runs/slurm-%j.log
set -euo pipefail

python=${GPUYARD_PYTHON:-.venv/bin/python}
ray=${GPUYARD_RAY:-.venv/bin/ray}
port=$((20000 + SLURM_JOB_ID % 20000))
cpus=${SLURM_CPUS_PER_TASK:-8}
store_bytes=2000000000

# A token of this job alone; only its owner can read it.
token=$(mktemp -p "$PWD" ".ray-token-$SLURM_JOB_ID-XXXXXX")
chmod 600 "$token"
"$python" -c 'import secrets; print(secrets.token_hex(32))' > "$token"
trap 'rm -f "$token"' EXIT

export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$token RAY_USAGE_STATS_ENABLED=0
export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head_ip=$(srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" hostname --ip-address | awk '{print $1}')
address=$head_ip:$port

start() {  # start NODE WORDS...: a Ray node that lives as long as this script
    local node=$1
    shift
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" \
        "$ray" start --block --disable-usage-stats --object-store-memory="$store_bytes" "$@" &
}

# No more CPUs than cores; the head keeps one for the driver.
start "${nodes[0]}" --head --node-ip-address="$head_ip" --port="$port" --num-cpus=$((cpus - 1)) \
    --include-dashboard=false
sleep 15
for node in "${nodes[@]:1}"; do
    start "$node" --address="$address" --num-cpus="$cpus"
done
sleep 15

runners=$((cpus * ${#nodes[@]} - 1))
srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" \
    "$python" scripts/train.py ray=cluster ray.address="$address" ray.token_path="$token" \
    ray.num_env_runners="$runners" resume=auto "$@"

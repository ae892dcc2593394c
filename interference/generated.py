"""Co-location rows drawn from the shipped physics, for use without measured rows."""

import numpy as np

from interference.dataset import ColocationRows, pair_number
from sim.physics.shipped_files import ShippedInterference, ShippedProfiles

PAIRS_A_TYPE = 224  # as many pairs a GPU type as the measured set has


def generated_rows(rng: np.random.Generator) -> ColocationRows:
    """Both directions of `PAIRS_A_TYPE` random pairs of the shipped table on each GPU type."""
    catalogue = ShippedProfiles()
    table = ShippedInterference().pair_table(catalogue)
    profiles = len(catalogue.names)
    first, second = np.triu_indices(profiles)
    types, victims, aggressors = [], [], []
    for row in range(len(catalogue.gpu_types)):
        chosen = rng.choice(len(first), PAIRS_A_TYPE, replace=False)
        a, b = first[chosen], second[chosen]
        other = a != b
        victims += [a, b[other]]
        aggressors += [b, a[other]]
        types.append(np.full(len(a) + int(other.sum()), row))
    gpu_type, victim, aggressor = map(np.concatenate, (types, victims, aggressors))
    feasible = table.feasible[gpu_type, victim, aggressor]
    norm = 1.0 / table.slowdown[gpu_type, victim, aggressor]
    return ColocationRows(
        gpu_types=catalogue.gpu_types,
        profiles=catalogue.names,
        solo_s=catalogue.compute_s,
        gpu_type=gpu_type,
        victim=victim,
        aggressor=aggressor,
        pair=pair_number(victim, aggressor, profiles),
        norm_speed=np.where(feasible, norm, np.nan),
        feasible=feasible,
        source="generated",
    )

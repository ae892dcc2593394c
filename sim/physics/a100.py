"""What was measured on the A100, fitted: step times of two models, and what neighbours cost.

The files `shipped/a100_*.csv` hold coefficients only; `python -m interference.make_a100` fits them
to Sia's profiles and to MISO's mixes (docs/clusters.md has the errors).

    step time:   base_s + per_sample_s * batch, of the models that Sia ran
    co-location: time of a victim = 1 + sensitivity of the victim * sum of its neighbours' loads
"""

import numpy as np

from sim.arrays import FloatArray
from sim.physics.catalogue import Catalogue
from sim.physics.gavel_files import profile_key
from sim.physics.shipped_files import shipped_rows

A100 = "a100"
# MISO ran other models; each of ours is taken for the one most like it, at the nearest batch size.
MISO_MODEL = {
    "LM": "deepspeech2",  # both recurrent
    "Recommendation": "embedding",
    "ResNet-18": "mobilenet",  # both light convolutional networks on small images
    "ResNet-50": "resnet",
    "Transformer": "transformer",
}


def covers(catalogue: Catalogue) -> bool:
    """Whether all profiles are of the models that the fits are for."""
    return all("/" in name and name.rpartition("/")[0] in MISO_MODEL for name in catalogue.names)


def a100_steps_s(names: tuple[str, ...], otherwise_s: FloatArray) -> FloatArray:
    """(P,) seconds a step: fitted where Sia ran the model, else `otherwise_s` (P,)."""
    lines = {row["model"]: row for row in shipped_rows("a100_steps.csv")}
    steps_s = otherwise_s.copy()
    for row, (model, batch) in enumerate(map(profile_key, names)):
        if model in lines:
            line = lines[model]
            steps_s[row] = float(line["base_s"]) + float(line["per_sample_s"]) * batch
    return steps_s


def a100_slowdown(names: tuple[str, ...]) -> FloatArray:
    """(P, P) slow-down [victim, aggressor] of a pair on one GPU."""
    found = {(row["model"], int(row["batch"])): row for row in shipped_rows("a100_mixes.csv")}
    rows = [found[_miso_profile(name, list(found))] for name in names]
    sensitivity = np.array([float(row["sensitivity"]) for row in rows])
    load = np.array([float(row["load"]) for row in rows])
    slowdown: FloatArray = 1.0 + sensitivity[:, None] * load[None, :]
    return slowdown


def a100_note(otherwise: str) -> str:
    """What a run with A100 assumes; `otherwise` says where the other step times are from."""
    steps = shipped_rows("a100_steps.csv")
    error = {row["fit"]: float(row["mean_error"]) for row in shipped_rows("a100_errors.csv")}
    models = " and ".join(row["model"] for row in steps)
    return (
        f"{A100}: steps of {models} fitted to Sia's profiles (mean error {error['steps']:.1%}), of "
        f"other models {otherwise}"
    )


def a100_pairs_note() -> str:
    """What its co-location is fitted to."""
    error = {row["fit"]: float(row["mean_error"]) for row in shipped_rows("a100_errors.csv")}
    return (
        f"{A100}: co-location fitted to MISO's mixes of seven jobs (mean error "
        f"{error['mixes']:.1%}, of pairs {error['pairs']:.1%}), each model taken for the one there "
        "most like it"
    )


def _miso_profile(name: str, known: list[tuple[str, int]]) -> tuple[str, int]:
    model, batch = profile_key(name)
    batches = [size for each, size in known if each == MISO_MODEL[model]]
    ratio = np.abs(np.log2(np.array(batches) / batch))
    return MISO_MODEL[model], batches[int(np.argmin(ratio))]

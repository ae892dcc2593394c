"""The models that are compared, simplest first."""

from collections.abc import Sequence

from interference.models.blend import BlendModel, BoostingModel, ExtraTreesModel
from interference.models.deep_set import DeepSetModel
from interference.models.design import MixedEffectsModel
from interference.models.gaussian_process import GaussianProcessModel
from interference.models.linear import ConstantModel, LinearModel
from interference.models.protocol import SpeedModel
from sim.errors import PhysicsError, nearest

LEARNED = BlendModel.name


def fresh_models(seed: int, names: Sequence[str] | None = None) -> list[SpeedModel]:
    """An unfitted one of each of `names`; None: of all.

    Raises:
        PhysicsError: for a name that is not known.
    """
    every: list[SpeedModel] = [
        ConstantModel(),
        LinearModel(),
        MixedEffectsModel(),
        BoostingModel(seed=seed),
        ExtraTreesModel(seed=seed),
        GaussianProcessModel(seed=seed),
        DeepSetModel(seed=seed),
        BlendModel(seed=seed),
    ]
    known = [model.name for model in every]
    for name in names or ():
        if name not in known:
            raise PhysicsError(
                f"no interference model {name!r}{nearest(name, known)}; use {', '.join(known)}"
            )
    return [model for model in every if names is None or model.name in names]

"""The shipped configuration builds the encoder it names."""

from pathlib import Path

import hydra
from omegaconf import OmegaConf

from gnn.encoder import HierarchicalEncoder

CONFIGS = Path(__file__).parents[2] / "conf" / "encoder"


def test_hierarchical_leaves_only_the_feature_widths_to_the_caller() -> None:
    build = hydra.utils.instantiate(OmegaConf.load(CONFIGS / "hierarchical.yaml"))
    encoder = build(gpu_features=3, server_features=2)
    assert isinstance(encoder, HierarchicalEncoder)
    assert (encoder.gpu_features, encoder.server_features) == (3, 2)

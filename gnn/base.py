"""What all encoders have in common: sizes, one norm a level, the check of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from gnn.batch import ClusterBatch, Embeddings
from gnn.sweep import Nodes
from gnn.tree import Tree


@dataclass(frozen=True)
class Sizes:
    """What an encoder is built for; `Encoder` says what is what."""

    gpu_features: int
    server_features: int
    gpu_dim: int
    hidden_dim: int
    rounds: int


class Encoder(nn.Module, ABC):
    """`ClusterBatch` to `Embeddings` of width `hidden_dim`; the default is in `gnn.encoder`.

    A LayerNorm a level ends every encoder, so that the policy head sees rows of one scale whatever
    the load.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: how often the encoder's step is repeated, with weights of its own each time.

    Raises:
        ValueError: a size is below 1.
    """

    gpu: nn.Linear
    server_norm: nn.LayerNorm
    rack_norm: nn.LayerNorm
    cluster_norm: nn.LayerNorm

    def __init__(
        self,
        *,
        gpu_features: int,
        server_features: int,
        gpu_dim: int,
        hidden_dim: int,
        rounds: int,
    ) -> None:
        """Check the sizes; draw weights, in the order of the passes: policy files rely on it."""
        super().__init__()
        sizes = Sizes(gpu_features, server_features, gpu_dim, hidden_dim, rounds)
        for key, value in vars(sizes).items():
            if value < 1:
                raise ValueError(f"encoder.{key} is {value}; it must be at least 1")
        self.gpu_features, self.server_features = gpu_features, server_features
        self.hidden_dim = hidden_dim
        self.gpu = nn.Linear(gpu_features, gpu_dim)
        self._add_layers(sizes)
        self.server_norm = nn.LayerNorm(hidden_dim)
        self.rack_norm = nn.LayerNorm(hidden_dim)
        self.cluster_norm = nn.LayerNorm(hidden_dim)

    @abstractmethod
    def _add_layers(self, sizes: Sizes) -> None:
        """Draw what stands between GPUs' embeddings and the norms."""

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()

    def embed_gpus(self, x_gpu: Tensor) -> Tensor:
        """(..., gpu_features) -> (..., gpu_dim)."""
        embedded: Tensor = self.gpu(x_gpu)
        return embedded.relu_()

    def _normed(self, batch: ClusterBatch, edges: Tree, nodes: Nodes) -> Embeddings:
        """The last states, of all levels, as embeddings."""
        parts, servers = batch.server_mask.shape
        return Embeddings(
            edges.real_servers(self.server_norm(nodes.server)).view(parts, servers, -1),
            edges.real_racks(self.rack_norm(nodes.rack)).view(parts, batch.num_racks, -1),
            edges.real_clusters(self.cluster_norm(nodes.cluster)),
        )

    def _check(self, batch: ClusterBatch) -> None:
        widths = (batch.x_gpu.shape[-1], batch.x_server.shape[-1])
        if widths != (self.gpu_features, self.server_features):
            raise ValueError(
                f"the batch has {widths[0]} GPU and {widths[1]} server features; the encoder was "
                f"built for gpu_features={self.gpu_features} and "
                f"server_features={self.server_features}"
            )

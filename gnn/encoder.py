"""The hierarchical encoder: a padded batch of partitions in, embeddings of every level out."""

from torch import nn

from gnn.base import Encoder, Sizes
from gnn.batch import ClusterBatch, Embeddings
from gnn.scatter import ScatterTree
from gnn.sweep import Nodes, Sweep
from gnn.tree import Tree


class HierarchicalEncoder(Encoder):
    r"""GPU -> server -> rack -> datacenter and back down, with shared weights at each level.

    Source: Zhao, Wu, "Large-Scale Machine Learning Cluster Scheduling via Multi-Agent Graph
    Reinforcement Learning" (IEEE TNSM 2021/22, https://arxiv.org/abs/2112.13354) for the
    hierarchy (inside the server, then across the datacenter). Widths and equations are not taken
    from there: each step is the mean update of GraphSAGE (`gnn.update.Update`),

    .. math:: h'_v = \mathrm{ReLU}(W_{own} h_v + W_{nbr} \cdot \mathrm{mean}_{u \in N(v)} h_u + b)

    where N(v) are the children going up and the parent going down. A GPU's embedding is
    :math:`\mathrm{ReLU}(W x + b)`. Racks and clusters have no features: in the first sweep their
    own term is left out. A LayerNorm a level ends the encoder, so that the policy head sees rows
    of one scale whatever the load. Weights depend on no number of GPUs, servers or racks.
    Left out: links inside the server and loads of links between switches, which
    `gnn.linked.LinkedEncoder` reads. Means forget how many children there are: give counts as
    features.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding; the GPU level has the most rows, keep it small.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: sweeps up and down, at least 1; each has its own weights.

    Raises:
        ValueError: a size is below 1.

    Shapes:
        input: `ClusterBatch` with x_gpu (B, S, K, gpu_features) and x_server
            (B, S, server_features)
        output: `Embeddings` server (B, S, hidden_dim), rack (B, R, hidden_dim), cluster
            (B, hidden_dim), zero in rows of padding
    """

    def _add_layers(self, sizes: Sizes) -> None:
        self.sweeps = nn.ModuleList(
            Sweep(
                gpu_dim=sizes.gpu_dim,
                server_dim=sizes.hidden_dim if done else sizes.server_features,
                upper_dim=sizes.hidden_dim if done else 0,
                hidden_dim=sizes.hidden_dim,
            )
            for done in range(sizes.rounds)
        )

    def forward(self, batch: ClusterBatch, tree: Tree | None = None) -> Embeddings:
        """Encode `batch`.

        Args:
            batch: B padded partitions.
            tree: the batch's edges, where the caller has them from an earlier batch of the same
                topology (`ScatterTree.of`, `DenseTree.of`); None reads them from the batch.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        self._check(batch)
        edges: Tree = ScatterTree.of(batch) if tree is None else tree
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
        nodes = Nodes(x_server, None, None)
        for sweep in self.sweeps:
            nodes = sweep(gpu_mean, nodes, edges)
        return self._normed(batch, edges, nodes)

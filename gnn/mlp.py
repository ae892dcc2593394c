"""No message passing: each server's own features, and pools of them."""

import torch
from torch import Tensor, nn

from gnn.batch import ClusterBatch, Embeddings
from gnn.encoder import Encoder, Nodes, Sizes, Update
from gnn.scatter import ScatterTree


class MlpEncoder(Encoder):
    r"""What an encoder gives without a graph: no server hears of another.

    A server's row is a ReLU network of its features and the mean of its GPUs' embeddings; the
    cluster's is :math:`\mathrm{ReLU}(W [\mathrm{mean} \| \mathrm{max}] + b)` over its servers, a
    rack's the mean of its servers. Made for ablations: widths as in `HierarchicalEncoder`.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: layers of a server's network after the first.

    Raises:
        ValueError: a size is below 1.

    Shapes:
        as `gnn.encoder.HierarchicalEncoder`
    """

    def _add_layers(self, sizes: Sizes) -> None:
        h = sizes.hidden_dim
        self.first = Update(own_dim=sizes.server_features, neighbour_dim=sizes.gpu_dim, out_dim=h)
        self.layers = nn.ModuleList(nn.Linear(h, h) for _ in range(sizes.rounds))
        self.pool = nn.Linear(2 * h, h)

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        self._check(batch)
        edges, whole = ScatterTree.of(batch), ScatterTree.without_racks(batch)
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
        server: Tensor = self.first(x_server, self.first.message(gpu_mean))
        for layer in self.layers:
            server = torch.relu(layer(server))
        server = edges.real_servers(server)
        most = server.view(*batch.server_mask.shape, -1).amax(1)  # nothing is below padding's 0
        pools = torch.cat([whole.servers_to_racks(server), most], -1)  # (B, 2 * H)
        cluster = torch.relu(self.pool(pools))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))

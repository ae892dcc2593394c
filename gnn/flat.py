"""One level instead of a hierarchy: the servers of a partition are all neighbours."""

from torch import Tensor, nn

from gnn.batch import ClusterBatch, Embeddings
from gnn.encoder import Encoder, Nodes, Sizes, Update
from gnn.scatter import ScatterTree


class FlatEncoder(Encoder):
    r"""GraphSAGE on a flat graph: GPUs tell their server, servers tell one another.

    Every update is that of `gnn.encoder.Update`. A server first hears the mean of its GPUs, then
    `rounds` times the mean of all servers of its partition (itself among them), whatever racks
    they stand in; the cluster's row is made of the mean of the last states. No server and no
    cluster row depends on racks; a rack's row is the mean of its servers. Made for ablations:
    widths as in `HierarchicalEncoder`.

    Args:
        gpu_features: numbers describing a GPU.
        server_features: numbers describing a server.
        gpu_dim: width of a GPU's embedding.
        hidden_dim: width of server, rack and cluster embeddings.
        rounds: updates of the servers from one another.

    Raises:
        ValueError: a size is below 1.

    Shapes:
        as `gnn.encoder.HierarchicalEncoder`
    """

    def _add_layers(self, sizes: Sizes) -> None:
        h = sizes.hidden_dim
        self.server_up = Update(
            own_dim=sizes.server_features, neighbour_dim=sizes.gpu_dim, out_dim=h
        )
        self.beside = nn.ModuleList(
            Update(own_dim=h, neighbour_dim=h, out_dim=h) for _ in range(sizes.rounds)
        )
        self.cluster_up = Update(own_dim=0, neighbour_dim=h, out_dim=h)

    def forward(self, batch: ClusterBatch) -> Embeddings:
        """Encode `batch`.

        Raises:
            ValueError: features have another width than the encoder's, or a rack is out of range.
        """
        self._check(batch)
        edges, whole = ScatterTree.of(batch), ScatterTree.without_racks(batch)
        x_gpu, x_server = edges.inputs(batch)
        gpu_mean = edges.gpus_to_servers(self.embed_gpus(x_gpu))
        server: Tensor = self.server_up(x_server, self.server_up.message(gpu_mean))
        for update in self.beside:
            mean = whole.servers_to_racks(server)  # (B, H): all servers stand in one rack
            server = update(server, whole.racks_to_servers(update.message(mean)))  # type: ignore[operator]
        cluster = self.cluster_up(None, self.cluster_up.message(whole.servers_to_racks(server)))
        return self._normed(batch, edges, Nodes(server, edges.servers_to_racks(server), cluster))

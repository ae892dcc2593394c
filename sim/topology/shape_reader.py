"""Server shapes of a description file."""

from sim.topology.gpu_kind import GpuKind
from sim.topology.inventory import Shape
from sim.topology.layout import Layout, flat_layout
from sim.topology.option_rules import MOST_GPUS_PER_SERVER
from sim.topology.section import Section

SHAPE = (
    "gpus",
    "gpu_type",
    "gpu_like",
    "gpu_speed",
    "gpu_memory_gib",
    "cpu_cores",
    "memory_gib",
    "nics",
    "intra_gbps",
    "inside",
)
NICS = ("count", "gbps")
INSIDE = tuple(Layout.__dataclass_fields__)
FASTEST_GBPS = 1e6
MOST_CORES = 1e6
MOST_GIB = 1e7
FASTEST = 1e4  # times as fast as another GPU
MOST_PARTS = 1024  # sockets, switches, islands of a server


def read_shapes(top: Section) -> dict[str, Shape]:
    """The shapes below `shapes`, by name.

    Raises:
        TopologyError: naming file, line, key, value and rule.
    """
    return {name: _shape(section) for name, section in top.named_sections("shapes", SHAPE)}


def _shape(shape: Section) -> Shape:
    nics = shape.section("nics", NICS)
    cores = shape.number("cpu_cores", low=0, high=MOST_CORES) if "cpu_cores" in shape else None
    gib = shape.number("memory_gib", low=0, high=MOST_GIB) if "memory_gib" in shape else None
    return Shape(
        gpus=shape.count("gpus", low=1, high=MOST_GPUS_PER_SERVER),
        gpu_type=shape.text("gpu_type"),
        cpu_milli=None if cores is None else round(cores * 1000),
        memory_mib=None if gib is None else round(gib * 1024),
        nic_gbps=nics.count("count", low=1, high=MOST_PARTS)
        * nics.number("gbps", low=0, high=FASTEST_GBPS),
        layout=_layout(shape),
        kind=_kind(shape),
    )


def _kind(shape: Section) -> GpuKind:
    gib, speed = "gpu_memory_gib", "gpu_speed"
    return GpuKind(
        where=shape.where("gpu_type"),
        like=shape.text("gpu_like") if "gpu_like" in shape else None,
        speed=shape.number(speed, low=0, high=FASTEST) if speed in shape else None,
        memory_gib=shape.number(gib, low=0, high=MOST_GIB) if gib in shape else None,
    )


def _layout(shape: Section) -> Layout:
    if "inside" not in shape:
        return flat_layout(shape.number("intra_gbps", low=0, high=FASTEST_GBPS))
    if "intra_gbps" in shape:
        raise shape.refusal("intra_gbps", "must be left out where inside says more")
    inside = shape.section("inside", INSIDE)
    sockets = inside.count("sockets", low=1, high=MOST_PARTS)
    switches = inside.count("pcie_switches", low=1, high=MOST_PARTS)
    if switches % sockets:
        raise inside.refusal("pcie_switches", f"must be a multiple of the {sockets} sockets")
    islands = inside.count("nvlink_islands", low=0, high=MOST_PARTS)
    pcie_gbps = inside.number("pcie_gbps", low=0, high=FASTEST_GBPS)
    nvlink_gbps = pcie_gbps  # nothing reads it where there is no island
    if islands or "nvlink_gbps" in inside:
        nvlink_gbps = inside.number("nvlink_gbps", low=0, high=FASTEST_GBPS)
    return Layout(
        sockets=sockets,
        pcie_switches=switches,
        nvlink_islands=islands,
        nvlink_gbps=nvlink_gbps,
        pcie_gbps=pcie_gbps,
        socket_gbps=inside.number("socket_gbps", low=0, high=FASTEST_GBPS),
    )

"""Where the published data sets come from, and under which licence."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """What has to be said wherever results of a data set are shown."""

    published: str
    licence: str
    caveat: str


ORIGINS = {
    "gavel": Origin(
        "Narayanan et al., OSDI 2020; stanford-futuredata/gavel",
        "MIT",
        "V100 speeds are cut at 1 in the source; a pair that is not feasible either did not fit "
        "or was not run",
    ),
    "lucid": Origin(
        "Hu et al., ASPLOS 2023; S-Lab-System-Group/Lucid",
        "S-Lab License 1.0: NON-COMMERCIAL use only",
        "speeds of PPO and TD3 are 1 by convention and are left out as victims; what was measured "
        "while two jobs ran is not read",
    ),
    "deepshare": Origin(
        "Ryu and Eo, ICPADS 2023; gajagajago/deepshare",
        "Apache-2.0",
        "GPU type and batch are not in the files; jobs share links, not GPUs",
    ),
    "generated": Origin(
        "drawn from the physics that ships with this project",
        "that of this project",
        "generated, not measured: its errors say nothing about real GPUs",
    ),
}
YOURS = Origin("rows of your own", "not known to this program", "")


def origin_of(data_set: str) -> Origin:
    """Of a published or generated set; any other is the user's."""
    return ORIGINS.get(data_set, YOURS)

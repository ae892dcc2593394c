"""`check_placements.py`: on files of a few rows, made by the very model that it fits."""

import csv
import gzip
from pathlib import Path

import pytest

SIA = "app,gpu_type,placement,local_bsz,step_time,sync_time\n"
GAVEL = "gpu_type,consolidated,model,batch_size,num_gpus,steps_per_s,steps_per_s_physical\n"
DEEPSHARE = "model,gpus,nodes,samples_per_s\n"
PAIRS = "model,gpus,nodes,other_model,other_gpus,other_nodes,norm\n"


@pytest.fixture
def data(tmp_path) -> Path:
    """Steps of 1 s, and 1 s more for each 2 (n - 1) / n of a ring of n servers on 10 Gbps."""
    folder = tmp_path / "data" / "throughput"
    folder.mkdir(parents=True)
    steps = {"1": 1.0, "11": 2.0, "111": 1.0 + 4 / 3, "1111": 2.5}
    sia = [f"net,k80,{placement},8,{step_s},0.1" for placement, step_s in steps.items()]
    (folder / "sia_placements.csv.gz").write_bytes(gzip.compress((SIA + "\n".join(sia)).encode()))
    gavel = ["k80,1,net,8,1,1.0,0"]
    gavel += [f"k80,0,net,8,{len(p)},{len(p) / s},0" for p, s in steps.items() if len(p) > 1]
    (folder / "gavel_isolated.csv").write_text(GAVEL + "\n".join(gavel))
    deepshare = [f"net,{len(p)},{len(p)},{len(p) / s}" for p, s in steps.items() if len(p) > 1]
    (folder / "deepshare_isolated.csv").write_text(DEEPSHARE + "\n".join(deepshare))
    share = {"a": 0.8, "b": 0.5, "c": 0.2}
    pairs = [f"{i},8,4,{j},8,4,{1 / (1 + share[i] * share[j])}" for i in share for j in share]
    (folder.parent / "colocation").mkdir()
    text = PAIRS + "\n".join(pairs * 3)
    (folder.parent / "colocation" / "deepshare_network_pairs.csv").write_text(text)
    return folder.parent


def test_links_predict_what_links_made(done, data):
    outcome = done("check_placements", f"data_dir={data}", "folds=3", "scale_up_gpus=2")
    assert "predictions of MEASURED steps" in outcome.out
    assert (outcome.folder / "placement_errors.png").stat().st_size > 10_000
    rows = list(csv.DictReader((outcome.folder / "placement_errors.csv").open()))
    assert {row["source"] for row in rows} == {"sia", "gavel", "deepshare"}
    sia = {(row["split"], row["model"]): row for row in rows if row["source"] == "sia"}
    for split in ("folds", "scale_up"):
        assert float(sia[split, "links"]["mape_frac"]) < 0.001
        assert float(sia[split, "none"]["mape_frac"]) > 0.1
    assert int(sia["folds", "links"]["rows"]) == 3
    # 1.25 GB at 10 Gbps is 1 s.
    assert float(sia["folds", "links"]["fitted_mib"]) == pytest.approx(1.25e9 / 2**20, rel=0.01)

    sharing = list(csv.DictReader((outcome.folder / "sharing_errors.csv").open()))
    errors = {row["law"]: float(row["mape_frac"]) for row in sharing}
    assert errors["duty"] < 0.001
    assert errors["fair"] > 0.05
    assert errors["none"] > errors["fair"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("folds=1", "folds is 1"),
        ("data_dir=nowhere", "GPUYARD_DATA"),
        ("~machines.k80", "no entry for GPU type 'k80'"),
    ],
)
def test_what_cannot_be_is_one_message(start, data, word, told):
    words = [word] if word.startswith("data_dir") else [f"data_dir={data}", word]
    start("check_placements", *words).failed_with(told)

"""`spread_ratio.py` on an experiment of A-SRPT."""

import csv
import re


def test_the_table_and_rho(done):
    outcome = done(
        "spread_ratio", "experiment=asrpt_main", "estimator=oracle", "workload.num_jobs=100",
        "gangs=[2,8,999]",
    )  # fmt: skip
    with (outcome.folder / "spread_ratio.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["gang"] for row in rows} == {"2", "8"}
    assert {row["profile"] for row in rows} == {
        "VGG-19/32", "ResNet-152/32", "Inception-v3/32", "BERT-large/8", "GPT-2-XL/4",
    }  # fmt: skip
    assert all(float(row["ratio"]) > 1.0 for row in rows)
    rho = float(re.search(r"rho = ([\d.]+)", outcome.out).group(1))
    assert rho > 1.2

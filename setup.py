"""What setup.cfg cannot say: the folder `conf/` is the package `gpuyard.conf` of a wheel."""

from setuptools import find_packages, setup

OURS = ("sim", "interference", "gnn", "marl", "gpuyard")

setup(
    packages=[
        *find_packages(include=[pattern for name in OURS for pattern in (name, f"{name}.*")]),
        "gpuyard.conf",
    ],
    package_dir={"gpuyard.conf": "conf"},
)

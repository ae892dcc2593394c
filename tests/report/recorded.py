"""What the files of a run hold, without files."""

import numpy as np

from sim.report.run_tables import Recorded, server_names
from sim.report.timeline import blocked_at_arrival
from sim.run import Run


def recorded_of(run: Run) -> Recorded:
    """The same without files."""
    elastic = run.jobs.elastic
    return Recorded(
        log=run.log,
        job_id=run.jobs.job_id,
        least_gpus=run.jobs.num_gpus if elastic is None else elastic.least_gpus,
        most_gpus=run.jobs.num_gpus if elastic is None else elastic.most_gpus,
        blocked=blocked_at_arrival(run),
        started=np.isfinite(run.start_s),
        ended=np.isfinite(run.finish_s),
        server_name=server_names(run.topology),
        server_rack=run.topology.server_rack,
        server_partition=run.partition_of_server,
        server_first_gpu=run.topology.server_first_gpu,
    )

"""Small hand-written files in every format that a workload reads; all values are made up."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig

from sim.errors import TraceError
from sim.physics.catalogue import Catalogue
from sim.traces.column_reader import Notes
from sim.traces.estimators import NoEstimator
from sim.traces.processes import DurationMixture
from sim.traces.setting import Setting
from sim.traces.spec import WorkloadSpec
from sim.traces.trace import Trace

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
DATA = Path(os.environ.get("GPUYARD_DATA", ROOT.parent / "shared" / "data"))
HEADER = "job_id,submit_s,num_gpus,duration_s"
STEADY = WorkloadSpec(  # the generator without bursts, days, repeats or any optional part
    jobs_per_h=40.0, dispersion_r=1e6, noise_persistence=0.0, hour_factors=[1.0] * 24,
    weekday_factors=[1.0] * 7, repeat_prob=0.0, repeat_sigma=0.0, gang_sizes=[1, 4, 64],
    gang_probs=[0.7, 0.2, 0.1], shortest_s=1.0, longest_s=1e7, vcs=5, users_per_vc=4,
    durations=[DurationMixture(up_to_gang=64, weights=[1.0], mu=[7.0], sigma=[2.0])],
    zipf_exponent=1.0,
)  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One file, what lies beside it, and how many jobs it holds."""

    text: str
    jobs: int
    beside: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # "{folder}" is the folder of the files
    delimiter: str = ","


def loaded(
    name: str, folder: Path, content: bytes, *options: str, strict: bool = True
) -> tuple[Trace, Notes]:
    """Read `content` as the main file of a sample's format, by its preset."""
    sample = SAMPLES[name]
    path = folder / "main.txt"
    path.write_bytes(content)
    for other, text in sample.beside.items():
        (folder / other).write_text(text)
    given = [each.format(folder=folder) for each in sample.options]
    workload = _kept(name, "path=unused", *given, *options)
    return workload._reader.read(
        path=str(path), columns=workload._columns, name=name, strict=strict
    )


@cache
def _kept(name: str, *changes: str) -> Any:
    return preset(name, *changes)


def preset(name: str, *changes: str) -> Any:
    """A workload as a user names it on the command line."""
    return instantiate(composed(name, *changes), _convert_="all")


@cache
def composed(name: str, *changes: str) -> DictConfig:
    """The same before it is built."""
    with initialize_config_dir(str(CONF), version_base=None):
        keys = [f"workload.{each}" if each[0] != "+" else f"+workload.{each[1:]}"
                for each in changes]  # fmt: skip
        return compose(overrides=[f"+workload={name}", *keys]).workload


@contextmanager
def refusal(words: str) -> Iterator[None]:
    """A `TraceError` of these words, as it is or as Hydra wraps it."""
    with pytest.raises(Exception, match=words) as error:
        yield
    assert isinstance(error.value.__cause__ or error.value, TraceError)


def setting(estimator: Any = None, **changes: Any) -> Setting:
    """64 GPUs of one kind in one partition; nothing is predicted."""
    plain = {"gpus": 64, "partitions": 1, "skew": 0.0, "catalogue": catalogue("a/1")}
    return Setting(**{**plain, "estimator": estimator or NoEstimator(), **changes})


def catalogue(
    *names: str, gpu_types: tuple[str, ...] = ("v100",), gang_ok: Any = True
) -> Catalogue:
    """Profiles of one second a step."""
    return Catalogue(
        names=names, gpu_types=gpu_types, compute_s=np.ones((len(names), len(gpu_types))),
        sync_bytes=np.ones(len(names)), gang_ok=np.full(len(names), gang_ok), source="shipped",
    )  # fmt: skip


def caps(**given: Any) -> Any:
    """Options of `cap` that change nothing unless said."""
    no_range = {"min_duration_s": None, "max_duration_s": None}
    return SimpleNamespace(**{"max_gang": None, "drop_too_large": False, **no_range, **given})


def trace_of(
    submit_s: Iterable[float], duration_s: Sequence[float] | None = None, *,
    num_gpus: Sequence[int] | None = None, user: Iterable[str] | None = None,
    vc: Iterable[str] | None = None, group: Iterable[str] | None = None,
) -> Trace:  # fmt: skip
    """Jobs j0, j1, ... of 1 GPU and 10 s unless said otherwise."""
    at_s = np.array(list(submit_s), dtype=np.float64)
    jobs = len(at_s)

    def texts(values: Iterable[str] | None) -> Any:
        return np.array([""] * jobs if values is None else list(values), dtype=object)

    return Trace(
        name="small", job_id=texts(f"j{row}" for row in range(jobs)), submit_s=at_s,
        num_gpus=np.array([1] * jobs if num_gpus is None else num_gpus, dtype=np.int64),
        duration_s=np.array([10.0] * jobs if duration_s is None else duration_s, dtype=np.float64),
        user=texts(user), vc=texts(vc), group=None if group is None else texts(group),
    )  # fmt: skip


def _attempt(start: str | None, end: str | None, *servers: int) -> dict[str, Any]:
    detail = [
        {"ip": f"m{place}", "gpus": [f"gpu{gpu}" for gpu in range(gpus)]}
        for place, gpus in enumerate(servers)
    ]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(number: int, status: str, submitted: str, *attempts: dict[str, Any]) -> Any:
    """One object of the Philly log."""
    return {
        "status": status, "vc": f"v{number % 2}", "jobid": f"application_{number}",
        "attempts": list(attempts), "submitted_time": submitted, "user": f"u{number % 3}",
    }  # fmt: skip


PHILLY = [
    philly_job(3, "Pass", "2017-10-07 01:00:00",
               _attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", 8),
               _attempt("2017-10-07 01:03:00", "2017-10-07 01:03:30", 8),
               _attempt("2017-10-07 02:00:00", "2017-10-07 03:00:00", 8, 8)),
    philly_job(1, "Failed", "2017-10-06 23:59:50",
               _attempt("2017-10-07 00:00:00", "2017-10-07 00:00:10", 1)),
    philly_job(2, "Killed", "2017-10-07 00:10:00"),
    philly_job(4, "Pass", "2017-10-07 00:20:00"),
    philly_job(5, "Pass", "2017-10-07 00:30:00",
               _attempt("2017-10-07 00:31:00", "2017-10-07 00:32:00", 0)),
    philly_job(6, "Killed", "2017-10-07 03:30:00",
               _attempt(None, None, 2), _attempt("2017-10-07 03:40:00", "None", 2)),
    philly_job(7, "Pass", "2017-10-07 03:45:00",
               _attempt("2017-10-07 03:45:00", "2017-10-07 03:50:00", 4)),
]  # fmt: skip

HELIOS = """job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,\
start_time,end_time,duration,queue
10,uA,vcX,train,8,24,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:30,2020-04-01 01:00:30,3600,30
11,uB,vcY,prep,0,4,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:10,2020-04-01 00:01:10,60,0
12,uA,vcX,train,1,3,1,CANCELLED by 1,2020-04-01 00:01:00,2020-04-01 00:02:00,2020-04-01 00:02:00,\
0,60
13,uB,vcY,eval,16,32,2,NODE_FAIL,2020-04-01 00:02:00,2020-04-01 00:02:00,2020-04-01 00:12:00,600,0
14,uB,vcY,eval,2,5,1,TIMEOUT,2020-04-01 00:00:30,2020-04-01 00:02:00,2020-04-01 00:12:00,600,90
"""

ACME = """job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,\
end_time,duration,queue
a,u1,2,16,64,800,Pretrain,COMPLETED,2023-05-18 09:00:00+08:00,2023-05-18 09:10:00+08:00,\
2023-05-18 10:10:00+08:00,4200,600
b,u2,1,8,32,400,Eval,FAILED,2023-05-18 09:01:00+08:00,2023-05-18 09:01:00+08:00,\
2023-05-18 09:01:30+08:00,30,0
c,u2,1,1,4,50,Eval,CANCELLED,2023-05-18 09:02:00+08:00,,2023-05-18 09:12:00+08:00,600,600
d,u1,1,0,4,50,Other,COMPLETED,2023-05-18 09:03:00+08:00,2023-05-18 09:03:00+08:00,\
2023-05-18 09:04:00+08:00,60,0
e,u1,1,4,4,50,Debug,FAILED,2023-05-18 09:03:00+08:00,,,,
"""

PAI = """j1,worker,4.0,Terminated,1000.0,1600.0,600.0,29.296875,50.0,T4
j1,ps,2.0,Terminated,1000.0,1600.0,400.0,10.0,,
j2,tensorflow,1.0,Failed,1200.0,1260.0,1200.0,64.0,800.0,V100
j3,worker,2.0,Terminated,1100.0,1300.0,,,200.0,P100
j4,worker,1.0,Running,1400.0,,600.0,29.0,100.0,T4
j5,worker,1.0,Terminated,,1500.0,600.0,29.0,100.0,T4
j6,worker,1.0,Waiting,,,600.0,29.0,25.0,T4
"""
PAI_JOBS = """j1,i1,alice,Terminated,900.0,1600.0
j2,i2,bob,Failed,1190.0,1260.0
j3,i3,alice,Terminated,1100.0,1300.0
j4,i4,bob,Running,1390.0,
"""
PAI_TAGS = """i1,alice,,g1,bert
i1,alice,,g1,bert
i2,bob,V100,g2,
i3,alice,,g1,
"""

OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
deletion_time,scheduled_time
p0,12000,16384,1,460,,LS,Running,0,500,10.0
p1,88000,327680,8,1000,V100M16|V100M32,Burstable,Succeeded,5,105,5.0
p2,4000,1024,0,0,,BE,Succeeded,6,16,6.0
p3,4000,15258,1,220,T4,BE,Pending,20,80,
p4,4000,15258,1,1000,nan,Guaranteed,Failed,30,50,40
"""

LINGJUN = """id,job_name,status,gmt_job_submitted,gmt_job_running,gmt_job_finished,\
gmt_job_stopped,user_id,workspace_id,model,priority
1,dlc1,Succeeded,2023/7/15 02:19,2023/7/15 02:21,2023/7/15 03:21,,u1,w1,resnet,1
2,dlc2,Stopped,2023/7/15 02:20,2023/7/15 02:30,,2023/7/15 02:40,u2,w1,unknown,5
3,dlc3,Failed,2023/7/15 02:25,,2023/7/15 02:27,,u1,w2,llama,1
4,dlc4,Running,2023/7/15 02:26,2023/7/15 02:27,,,u1,w2,llama,1
5,dlc5,Succeeded,2023/7/15 02:30,2023/7/15 02:31,2023/7/15 02:32,,u3,w2,preprocess,1
"""
LINGJUN_WORKERS = """id,job_name,worker_name,RES
1,dlc1,a,"{""cpu"": ""90"", ""memory"": ""900Gi"", ""nvidia.com/gpu"": ""8""}"
2,dlc1,b,"{""cpu"": ""90"", ""memory"": ""900Gi"", ""nvidia.com/gpu"": ""8""}"
3,dlc2,a,"{""cpu"": 9, ""nvidia.com/gpu"": 1}"
4,dlc3,a,"{""nvidia.com/gpu"": ""2""}"
5,dlc4,a,"{""nvidia.com/gpu"": ""2""}"
6,dlc5,a,"{""cpu"": ""4""}"
"""

DAG = """M1,40,j_1,1,Terminated,100,110,100.00,0.30
M2,1,j_1,1,Terminated,102,105,100.00,0.30
R3_1_2,5000,j_1,1,Terminated,111,131,50.00,0.20
J4_3_9,3,j_1,1,Terminated,132,133,50.00,0.20
task_LTg=,2,j_2,1,Terminated,90,95,100.00,0.30
M1,2,j_3,1,Failed,120,125,100.00,0.30
R2_1,2,j_3,1,Waiting,,,100.00,0.30
M1,2,j_4,1,Terminated,0,0,100.00,0.30
"""
DAG_TASKS = """arrival_s,job,task,duration_s,plan_cpu,plan_mem,n_instances,\
inst_dur_mean_s,inst_dur_max_s
0,j_1,M1,10,100.0,0.3,40,9.0,10
0,j_1,R2_1,20,100.0,0.3,1,20.0,20
5,j_2,task_LTg=,3,50.0,0.3,2,3.0,3
"""

SIA = """name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
imagenet-1,50.5,imagenet,16,1600
bert-2,110,bert,4,384
"""
SIA_DRAWS = """workload,name,time,application,num_replicas,batch_size
1,cifar10-0,107,cifar10,6,2048
2,cifar10-0,7,cifar10,2,2048
1,bert-1,110,bert,4,384
"""

CSV = """job_id,submit_s,num_gpus,duration_s,user,vc,group,model,priority,deadline_s,\
cpu_milli,memory_mib,gpu_milli,gpu_types,least_gpus,most_gpus,outcome,withdraw_s,\
attempts,parents,workflow,limit_s,waited_s
a,0,1,100,ann,v1,g1,resnet50,3,500,4000,2048,500,v100|P100,1,4,completed,,20;60.5,,w1,3600,2.5
b,10,4,50,bob,v2,,LM,-1,,,,,,,,failed,,,a,w1,,0
c,5,2,80,ann,v1,g1,,,900,1000,,,k80,2,,Cancelled,30,,a;b,w1,7200,
d,20,1,5,,,,,,,,,,,,,,,,,,,
"""  # fmt: skip
CSV_MORE = ("user", "vc", "group", "model", "priority", "deadline_s", "cpu_milli", "memory_mib",
            "gpu_milli", "gpu_types", "least_gpus", "most_gpus", "outcome", "withdraw_s",
            "attempts", "parents", "workflow", "limit_s", "waited_s")  # fmt: skip

ONE = "billing=4,cpu=4,gres/gpu=1,mem=16000M,node=1"
TWO = "billing=16,cpu=16,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1"  # one number, printed twice
SACCT = f"""JobID|User|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|Timelimit|ReqTRES|\
AllocTRES|JobName
101|ann|a100|high|COMPLETED|2025-03-01T08:00:00|2025-03-01T08:00:00|2025-03-01T08:10:00|\
2025-03-01T10:10:00|7200|1-02:00:00|{TWO}|{TWO}|train
101.batch||||COMPLETED|2025-03-01T08:10:00|2025-03-01T08:10:00|2025-03-01T08:10:00|\
2025-03-01T10:10:00|7200||||batch
102_4|bob|a100|low|CANCELLED by 1000|2025-03-01T08:01:00|2025-03-01T08:01:00|None|\
2025-03-01T09:01:00|0|02:00:00|{ONE}||sweep
102_[5-9%2]|bob|a100|low|PENDING|2025-03-01T08:01:00|2025-03-01T08:01:00|Unknown|Unknown|0|\
02:00:00|{ONE}||sweep
103|cat|cpu|low|COMPLETED|2025-03-01T08:01:30|2025-03-01T08:01:30|2025-03-01T08:01:31|\
2025-03-01T08:01:35|4|02:00:00|cpu=4,node=1|cpu=4,node=1|prep
104|cat|a100,v100|low|PREEMPTED|2025-03-01T08:02:00|2025-03-01T08:02:00|2025-03-01T08:03:00|\
2025-03-01T08:13:00|600|UNLIMITED|{TWO}|{TWO}|llm
104|cat|a100|low|TIMEOUT|2025-03-01T08:13:00|2025-03-01T08:13:00|2025-03-01T09:00:00|\
2025-03-01T12:00:00|10800|UNLIMITED|{TWO}|{TWO}|llm
105+0|ann|v100|low|RUNNING|2025-03-01T08:20:00|2025-03-01T08:50:00|2025-03-01T09:00:00|Unknown|\
9000|Partition_Limit|{ONE}|cpu=4,gres/gpu:v100=2,gres/gpu:a100=1,mem=3T|
106|bob|a100|low|PENDING|2025-03-01T08:30:00|Unknown|Unknown|Unknown|0|00:30:00|{ONE}||x
107|bob|a100|low|OUT_OF_MEMORY|2025-03-01T08:00:30|2025-03-01T08:00:30|2025-03-01T08:00:30|\
2025-03-01T08:01:30|60|00:30:00|{ONE}|{ONE}|train
108|bob|a100|low|COMPLETED|2025-03-01T08:00:40|2025-03-01T08:00:40|2025-03-01T08:00:50|\
2025-03-01T08:01:50|60|00:30:00|cpu=1,gres/shard=4|cpu=1,gres/shard=4|share
109|bob|a100|low|CANCELLED by 0|2025-03-01T08:00:40|Unknown|None|2025-03-01T09:00:40|0|\
00:30:00|{ONE}||held
"""

SWF = """; Version: 2.2
; Computer: made up, a cluster of 32 processors
1 0 10 100 4 -1 -1 4 3600 2048 1 1 1 7 1 -1 -1 -1
2 5 -1 50 -1 -1 -1 9 -1 -1 0 2 1 7 2 -1 -1 -1
3 6 30 -1 -1 -1 -1 8 60 -1 5 1 1 -1 1 -1 -1 -1
4 7 1 -1 4 -1 -1 4 60 -1 1 1 1 7 1 -1 -1 -1
5 8 1 10 -1 -1 -1 -1 60 -1 1 1 1 7 1 -1 -1 -1
6 9 0 0 2 -1 -1 2 60 -1 -1 -1 1 7 1 -1 -1 -1
7 10 1 20 4 -1 -1 4 60 -1 1 3 1 7 1 -1 -1 -1
7 10 1 9 4 -1 -1 4 60 -1 2 3 1 7 1 -1 -1 -1
7 30 1 11 4 -1 -1 4 60 -1 3 3 1 7 1 -1 -1 -1
"""

SAMPLES = {
    "csv": Sample(CSV, 4, options=tuple(f"columns.{key}={key}" for key in CSV_MORE)),
    "philly": Sample("job_id,submit_s,num_gpus,duration_s,vc\na,0,1,9,x\nb,1,2,9,\n", 2),
    "helios_venus": Sample("job_id,submit_time,num_gpus,duration_s\na,2020-04-01,1,9\n", 1),
    "philly_json": Sample(json.dumps(PHILLY, indent=1), 5),
    "helios_log": Sample(HELIOS, 4, options=("columns.jobname=jobname",)),
    "acme": Sample(ACME, 3),
    "alibaba_pai": Sample(
        PAI, 3, {"jobs.csv": PAI_JOBS, "tags.csv": PAI_TAGS},
        ("reader.job_table={folder}/jobs.csv", "reader.tag_table={folder}/tags.csv"),
    ),
    "alibaba_pai_tasks": Sample(
        "job,task,submit_s,duration_s,num_gpus,clamped\n0,worker,5,9,1,0\n0,ps,5,9,2,0\n", 2
    ),
    "alibaba_pai_100k": Sample(
        "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user\n"
        "1,1,0,6.0,0.5,MISC,60,u1\n2,4,5,6.0,1.0,V100,600,u2\n3,2,9,6.0,0.25,T4,6,u1\n", 3,
    ),
    "alibaba_spot": Sample(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
        "job_type\na,o1,A10,8,0.57,1,0,60,HP\nb,o2,H800,96,8,4,5,600,Spot\nc,o1,A10,4,0.5,2,9,6,HP\n",
        3,
    ),
    "alibaba_openb": Sample(OPENB, 4),
    "alibaba_lingjun": Sample(LINGJUN, 3, {"worker.csv": LINGJUN_WORKERS}),
    "alibaba_lingjun_jobs": Sample("job_id,submit_s,num_gpus,duration_s\n0,0.0,48,720.0\n", 1),
    "alibaba_dag_2018": Sample(DAG, 6),
    "alibaba_dag_tasks": Sample(DAG_TASKS, 3),
    "sia": Sample(SIA, 3),
    "sia_newtrace": Sample(SIA_DRAWS, 2),
    "sia_saturn": Sample(SIA_DRAWS, 2),
    "sia_philly": Sample(SIA_DRAWS, 1, options=("reader.draw=2",)),
    "tiresias": Sample(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "0,1,0,606,vgg19,164,30\n", 1,
    ),
    "sacct": Sample(SACCT, 5, delimiter="|", options=("+reader.qos_priority={{high: 2, low: 1}}",)),
    "swf": Sample(SWF, 5, delimiter=" "),
}  # fmt: skip

"""Every schedule of PyTorch's torch.distributed.pipelining as CSV, in both forms: what is in this folder.

Usage: python3 dump.py FOLDER [RANKS MICROBATCHES]   (here: 2 4)
With torch 2.15.0. No process group is needed: the schedules are asked for their actions alone.
"""
import logging
import sys
import types

from torch.distributed.pipelining import schedules as s

logging.disable(logging.WARNING)
folder, n_ranks, m = sys.argv[1], *map(int, sys.argv[2:4] or (4, 8))


def make_stages(per_rank):
	return [types.SimpleNamespace(num_stages=n_ranks * per_rank, group_size=n_ranks, group_rank=0,
	                              stage_index=n_ranks * i, is_last=False, is_first=False, submod=None,
	                              has_backward=True) for i in range(per_rank)]


def dump(name, schedule):
	schedule._dump_csv(f"{folder}/{name}-compute_only.csv", format="compute_only")
	schedule._dump_csv(f"{folder}/{name}-compute_comms.csv", format="compute_comms")


def dump_single(name, kind):
	"""GPipe knows its actions; the runtime adds what moves. (What 1F1B says of itself, its own checker refuses.)"""
	order = kind._get_pipeline_order(types.SimpleNamespace(_num_stages=n_ranks, _n_microbatches=m))
	runtime = s._PipelineScheduleRuntime(make_stages(1), m)
	runtime.pipeline_order = {rank: [a for a in row if a is None or a.is_compute_op] for rank, row in order.items()}
	runtime._prepare_schedule_with_comms(runtime.pipeline_order)
	dump(name, runtime)


dump_single("gpipe", s.ScheduleGPipe)
two = make_stages(2)
dump("looped-bfs", s.ScheduleLoopedBFS(two, m))
dump("interleaved-1f1b", s.ScheduleInterleaved1F1B(two, m))
dump("interleaved-1f1b-few-sends", s.ScheduleInterleaved1F1B(two, m, max_outstanding_sends=1, defer_reduce_grad_wait=True))
dump("interleaved-zero-bubble", s.ScheduleInterleavedZeroBubble(two, m))
dump("zbv-zero-bubble", s.ScheduleZBVZeroBubble(two, m))
dump("dualpipe-v", s.ScheduleDualPipeV(two, m))

#!/usr/bin/env python3
"""The policy of heft.c as a plan. Usage: heft.py PLAN >HEFT.json, where PLAN is from `orrery simulate ... -s 1f1b -o PLAN`,
for its costs and its caps."""
import json
import sys

plan = json.load(open(sys.argv[1], encoding='utf-8'))
stages, workers, m = plan['stages'], range(plan['workers']), range(plan['microbatches'])
S = range(len(stages))
run = {job for w in plan['worker'] for job in w['order']}  # a frozen stage may have no B
ns = [[round(1e9 * x['forward']), round(1e9 * (x['backward'] + (x['weight'] or 0)))] for x in stages]
wire = {(s, t): round(1e9 * plan['latency']) + int(0.5 + 1e9 * sent / (plan['bandwidth'] or float('inf')))
        for s, t, sent, _ in plan['pipeline']['edges']}

# ranks, then places, then orders
rank, end, load, worker = {}, {}, [0 for w in workers], {}
for s in S:
    rank[s, 1] = ns[s][1] + max((rank[t, 1] + wire[t, s] for t in S if (t, s) in wire), default=0)
for s in reversed(S):
    rank[s, 0] = ns[s][0] + max([rank[s, 1]] + [rank[t, 0] + wire[s, t] for t in S if (s, t) in wire])
for s in sorted(S, key=lambda s: -rank[s, 0]):
    ends = [ns[s][0] + max((end[t] + wire[t, s] * (worker[t] != w) for t in S if (t, s) in wire), default=0) for w in workers]
    worker[s] = min(workers, key=lambda w: ends[w] + load[w])
    end[s], load[worker[s]] = ends[worker[s]], load[worker[s]] + len(m) * sum(ns[s])
jobs = sorted((-rank[s, d], b, s, d) for s in S for b in m for d in (0, 1) if f'{s}{"FB"[d]}{b}' in run)

for s in S:
    stages[s].update(worker=worker[s], workers=[worker[s]], owners=[worker[s]])
for w in workers:
    mine = [(n, *job) for n, job in enumerate(jobs) if worker[job[2]] == w]
    plan['worker'][w] = {'order': [f'{s}{"FB"[d]}{b}' for _, _, b, s, d in mine], 'n': [job[0] for job in mine]}
plan.update(schedule='heft', order='greedy')
json.dump(plan, sys.stdout, indent=1)

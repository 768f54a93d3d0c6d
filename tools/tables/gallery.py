"""Draws every schedule and writes the page that shows them: src/schedules/README.md and gallery/*.svg beside it."""
import os
import sys

from common import ROOT, ask, row, run

PAGE = ROOT / "src/schedules/README.md"

# name | graph | workers | placement and order | memory of the fullest worker | bubble
# (P workers, m microbatches, v = S/P stages a worker, whole: all of a worker's stages; F, B, W a stage's times)
ROWS = """\
ddp|chain:4|4|`b mod W`; F then B along each microbatch; replicas all-reduce|all S stages of one microbatch, all parameters|none for m a multiple of W
fsdp|chain:4|4|as ddp; stage s owned by `s mod W`|all S stages of one microbatch, 1/W of the parameters and three fetched stages|none, when fetching is hidden
gpipe|chain:4|4|`s mod W`; all F before any B|m microbatches|(P-1)(F+B)
lpp|chain:4|4|`(R b mod W) + (s mod R)`, G groups of R workers; order as 1f1b in a group|S/R min(S, B/G)|S + B/G - 1 units for R = S
fslpp|chain:4|4|as lpp; stage s owned by `h(s,s)`|as lpp, parameters sharded over lcm(G,R) workers|as lpp
1f1b|chain:4|4|`s mod W`; n_F = 2b+D-depth, n_B = 2b+D+depth-1|depth(s) microbatches|(P-1)(F+B)
eager-1f1b|chain:4|4|1f1b with 2 depth-1 in flight|2 depth(s)-1 microbatches|as 1f1b; hides transfers
1f1b-r|chain:4|4|1f1b, B runs F again|depth(s) stage inputs and one whole stash|(P-1)(2F+B), and F more a microbatch
interleaved|chain:8|4|`s mod P`; groups of P microbatches, warm-up 2(P-r-1)+(v-1)P|up to (v-1)P+2P-1 stage stashes, of v a microbatch|(P-1)(F+B) of a stage, 1/v of 1f1b's
interleaved-uniform|chain:8|4|as interleaved, microbatches at equal intervals|as interleaved|as interleaved
interleaved-low-memory|chain:8|4|`s mod P`, a block with shorter lifespans|less than interleaved|as interleaved
zb-h1|chain:4|4|split backward, 1f1b's warm-up|D microbatches|(P-1)(F+B-W)
zb-h2|chain:4|4|split backward, 2 depth-1 forwards first|2D-1 microbatches|(P-1)(F+B-2W)
zb-1p|chain:4|4|split backward, order found by a search|D microbatches|3m+P-1 at unit times
zb-2p|chain:4|4|split backward, order found by a search|2D microbatches (see `kept`)|0 in the span at unit times
zb-two-thirds|chain:4|4|split backward, one stage a worker|two thirds of 1f1b|between 1f1b and V-Half
v-min|chain:8|4|V fold, T = 6, offsets 1, 1|floor((P+4)/3) whole stashes|about 4P at unit times; grows with m when F, B, W differ
v-half|chain:8|4|V fold, T = 6, offsets 2, 1|floor((P+2)/2) whole stashes|about 3P at unit times
v-zb|chain:8|4|V fold, T = 6, offsets 4, 2|P whole stashes|0 in the span at unit times
1f1b-v|chain:8|4|V fold, backward whole|two thirds of 1f1b|about that of 1f1b
adaptive|chain:8|4|V fold, the best block found for `memory`|at most `memory` stage stashes|the least found
chimera|chain:4|4|`s` for even b, `S-1-s` for odd b; two replicas|S/2+1 to S|2m+S-2 at F = B, m a multiple of S
gems|chain:4|4|as chimera, forwards follow backwards|one|(m-1)(S B+F)+S(F+B) in all
hanayo|chain:8|4|the V repeated; P microbatches in flight|P|2(2 waves m+P-1) in all at F = B
auto|chain:4|4|`s mod W`, the V fold, an even share of the work or, from three stages a worker on, uneven folds, and the best order that a search finds|at most `memory` stage stashes|the least found, with a lower bound
1f1b-star|chain:4|4|the least memory that a period allows, contiguous stages|what the period needs|a 1-periodic pattern
pipedream|chain:4|4|`first(s) + b mod replicas`; 1f1b without a flush, workers ahead instead of depth|depth(s) microbatches and as many versions of the parameters|none: (P-1)(F+B) once, at the start
k-periodic|chain:4|4|k microbatches to a period|what the pattern needs|a k-periodic pattern
dualpipe-v|chain:8|4|V fold, split backward, forwards paired with backwards|2P+1 stage stashes|(P-1)(F+B+B-3W)
"""

ABOVE = """\
# The gallery of schedules

Written by `tools/table gallery`: do not edit. 8 microbatches on 4 workers, F = B = W = 1 for a stage (the backward is
2 where it is not split), free links. Peaks count stage stashes: where a worker has two stages, two of them are
one whole stash. `orrery schedules` has the parameters, `src/README.md` how to add one. `--replicas R` repeats any of them
that flushes, on W/R workers each ([how](../report/README.md#reports-and-drawings)).
"""


def section(orrery, told, name, graph, workers, order, memory, bubble):
    """told: (summary, paper)"""
    drawing = PAGE.parent / f"gallery/{name}.svg"
    drawing.parent.mkdir(exist_ok=True)
    figures = ask(orrery, "simulate", graph, "-w", workers, "-m", 8, "--costs", "1,1,1", "--schedule", name, "--svg", drawing)
    peak, summary, paper = max(worker["peak_stash"] for worker in figures["worker"]), *told
    # [3] appendix E.2: what most orders of a V fold in so much memory do not undercut
    folded = name.startswith("v-") or name == "adaptive"
    expected = f" 6n+6d-3k-1 = {6 * 8 + 6 * int(workers) - 3 * peak - 1}." if folded else ""
    paper = f" {paper}." if paper else ""
    yield f"## {name}\n\n{summary}.\n\n![{name}](gallery/{name}.svg)\n"
    yield "\n".join([row("placement and order", "memory", "bubble or length"), "|---|---|---|", row(order, memory, bubble), ""])
    yield (f"Here, `{graph}`: makespan {figures['makespan']:g}, bubble {100 * figures['bubble']:.1f}%, span bubble "
           f"{100 * figures['span_bubble']:.1f}%, peak {peak} stage stashes.{expected}{paper}\n")


def main(options):
    told = dict(line.split("\t", 1) for line in run(options.orrery, "schedules", "--table").splitlines())
    rows = [line.split("|") for line in ROWS.splitlines()]
    if set(told) - {name for name, *_ in rows}:
        sys.exit(f"{set(told) - {name for name, *_ in rows}} have no row in tools/tables/gallery.py: write one")
    lines = [ABOVE]
    for name, *words in rows:
        lines += section(options.orrery, told[name].split("\t"), name, *words)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(os.path.relpath(PAGE))

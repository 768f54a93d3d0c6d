#pragma once
/* What moves where links are not free, from a job to one that waits for it, and what that one waits
 * for. What F makes moves to a worker once, with the first of the jobs that read it there; a stage
 * that gathers reads that of a whole minibatch, and sends back for each microbatch the sum of the
 * gradients that its jobs have made on a worker, after the last of them. */
#include "orrery/jobs.h"
#include "orrery/timeline.h"

/* Does F k read what F j of another stage makes, or wait only for room in memory? */
bool orr_moves_activations(const struct orr_jobs *jobs, int j, int k);
/* Is the edge from j to k one of gradients of a whole minibatch? */
bool orr_moves_gradients(const struct orr_jobs *jobs, int j, int k);
/* Does anything move to number i of k's workers at the end of j; of a sum, of its last job j? */
bool orr_moves(struct orr_transfer *out, const struct orr_jobs *jobs, int j, int k, int i);
/* The transfers that number i of k's workers waits for because of j; of a sum, of its last job. */
int orr_moves_number(const struct orr_jobs *jobs, int j, int k, int i);
/* The transfers that k waits for because of j, or 1 for its end; 0: those of another in a sum. */
int orr_moves_count(const struct orr_jobs *jobs, int j, int k);

/* The parked stash of F j: to its place or, with back, from there. */
struct orr_transfer orr_moves_parked(const struct orr_jobs *jobs, int j, bool back);

/* The parameters that j fetches, the gradient that it sends to their owner, and the ring of the
 * owners of a set of parameters, for the update that j's gradient is in; of a job on several
 * workers all of it from and to the first. A ring comes after the last job whose gradient is in it,
 * of tied parameters that of their last stage. */
struct orr_transfer orr_moves_parameters(const struct orr_jobs *jobs, int j);
struct orr_transfer orr_moves_weight_gradient(const struct orr_jobs *jobs, int j);
struct orr_transfer orr_moves_ring(const struct orr_jobs *jobs, int set, int j);
/* The parameters of this version, of which each owner of s has updated a part, to all of them. */
struct orr_transfer orr_moves_gather(const struct orr_jobs *jobs, int s, int version);

#include "samples.h"

void orr_samples_init(struct orr_samples *samples, struct orr_data *data)
{
	const struct orr_work *work = data->work;
	int n_stages = work->pipeline->n_stages, n_microbatches = work->pipeline->n_microbatches;

	samples->filled = -1;
	orr_arrays_make(work->arrays, samples->block, orr_work_at(work, n_stages, 0));
	for (int s = 0; s < n_stages; s++)
		for (int b = 0; b < n_microbatches && !orr_work_fails(work); b++) {
			int f = orr_jobs_index(work->jobs, s, b, ORR_PASS_F);
			int64_t floats = orr_program_data_columns(work->programs[s]) *
					 orr_work_samples(work, b);

			if (floats && orr_work_computes(work, f))
				orr_handles_floats(&data->handles,
						   &samples->block[orr_work_at(work, s, b)],
						   floats);
		}
}

int orr_samples_fill(starpu_data_handle_t block, const struct orr_dataset *dataset,
		     const struct orr_program *program, const int64_t *rows, int64_t n,
		     struct orr_error *err)
{
	float *floats;
	int code = block ? orr_data_acquire(block, STARPU_W, &floats, err) : 0;

	if (!block || code)
		return code;
	for (int i = 0; i < program->n_inputs && !code; i++) {
		int64_t width = program->inputs[i].width;

		code = orr_dataset_gather(dataset, program->inputs[i].tensor,
					  program->inputs[i].columns, width, rows, n, floats, err);
		floats += n * width;
	}
	orr_data_release(block);
	return code;
}

int orr_samples_gather(struct orr_samples *samples, const struct orr_work *work,
		       const struct orr_dataset *dataset, uint64_t seed, int64_t *rows,
		       struct orr_error *err)
{
	int code;

	if (samples->filled == samples->first)
		return 0;
	samples->filled = -1;
	code = orr_dataset_rows(dataset, seed, samples->first, work->batch, rows, err);
	for (int i = 0; i < work->n_sequence && !code; i++) {
		struct orr_job job = orr_jobs_at(work->jobs, work->sequence[i]);

		if (job.d == ORR_PASS_F)
			code = orr_samples_fill(samples->block[orr_work_at(work, job.s, job.b)],
						dataset, work->programs[job.s],
						rows + orr_work_first_sample(work, job.b),
						orr_work_samples(work, job.b), err);
	}
	if (!code)
		samples->filled = samples->first;
	return code;
}

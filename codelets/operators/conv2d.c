/* conv2d: each feature at each place is the product of what the window sees there, of the channels
 * of the feature's group, and its weights [channels][row][column]. What the window sees is unfolded
 * into the rows of a matrix, for a few samples at a time, and the rest is linear's products; the
 * weights are turned for them, so that a pixel's channels lie beside each other, unless the window
 * is one pixel. */
#include <math.h>
#include "image.h"
#include "list.h"

enum { FEATURES, KERNEL, STRIDE, PADDING, GROUPS, BIAS, HEIGHT };
static const struct orr_attribute attributes[] = {
	[FEATURES] = ORR_NEEDED("features", ORR_MOST_COLUMNS,
				"how many columns its output has, features=64"),
	[KERNEL] = ORR_NEEDED("kernel", 10000,
			      "how many pixels wide and high the window is, kernel=3"),
	[STRIDE] = ORR_COUNT("stride", 1, 10000, 1),
	[PADDING] = ORR_IMAGE_PADDING,
	[GROUPS] = ORR_COUNT("groups", 1, ORR_MOST_COLUMNS, 1),
	[BIAS] = {.name = "bias", .form = ORR_ATTRIBUTE_TRUTH, .otherwise = 1},
	[HEIGHT] = ORR_IMAGE_HEIGHT,
	{0},
};

/* More than any machine computes; what a graph adds up fits an int64_t. */
#define MOST_OPERATIONS 0x1p60

/* Of a group: the window, what it sees at a place, and features; and how many groups there are. */
struct shape {
	struct orr_window window;
	int64_t places, seen, features, groups;
};

static struct shape shape_of(const struct orr_instance *is)
{
	const double *v = is->values;
	struct shape s = {
		.window = orr_image_window(is, v[HEIGHT], v[KERNEL], v[STRIDE], v[PADDING]),
		.groups = (int64_t)v[GROUPS],
	};

	s.window.count = s.window.channels / s.groups;
	s.places = orr_window_places(&s.window);
	s.seen = orr_window_seen(&s.window);
	s.features = (int64_t)v[FEATURES] / s.groups;
	return s;
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const double *v = is->values;
	int64_t channels = is->inputs[0].columns, features = (int64_t)v[FEATURES];
	int64_t groups = (int64_t)v[GROUPS], kernel = (int64_t)v[KERNEL];
	struct shape s = shape_of(is);

	if (!orr_image_check(is, &s.window, why))
		return false;
	if (channels % groups || features % groups)
		return orr_refuse(why,
				  "conv2d: groups=%lld must divide the %lld channels of %.60s and "
				  "the %lld features",
				  (long long)groups, (long long)channels, why->inputs[0],
				  (long long)features);
	if (2.0 * (double)s.places * (double)s.seen * (double)features > MOST_OPERATIONS)
		return orr_refuse(why,
				  "conv2d: more operations than can be counted: make kernel=%lld "
				  "or features=%lld smaller",
				  (long long)kernel, (long long)features);
	is->output = (struct orr_shape){s.places, features};
	orr_instance_add(is, (struct orr_parameter_tensor){
				     .name = "weight",
				     .initial = ORR_INITIAL_UNIFORM,
				     .value = sqrt(6.0 / (double)s.seen),
				     .n_dims = 4,
				     .dims = {features, channels / groups, kernel, kernel}});
	if (v[BIAS] > 0)
		orr_instance_add(is, orr_parameter_vector("bias", features, 0));
	if (kernel == 1 && groups == 1)
		is->rounded = orr_linear_rounded(channels, features, v[BIAS] > 0);
	is->floats = groups > 1; /* whose columns lie apart */
	is->forward_flops = 2 * s.places * features * s.seen;
	is->backward_flops = is->weight_flops = is->forward_flops;
	return true;
}

/* Samples that are unfolded at a time. */
static int64_t share_of(const struct shape *s, const struct orr_device *d, int64_t n)
{
	int64_t most = d->kernels->unfolded / (s->places * s->seen);

	most = most < n ? most : n;
	return most > 1 ? most : 1;
}

/* The workspace: that of the products, then these from `unfolded` on, each at a multiple of 16
 * bytes. */
struct room {
	int64_t share;        /* samples that are unfolded at a time */
	const float *x, *dy;  /* what is read of them */
	const float *weights; /* as products read them */
	float *sum, *bias;    /* gradients: of the weights, and of the bias if there is one */
	float *unfolded;      /* of a share of the samples */
	float *features;      /* of a group, and of a share */
	float *turned;        /* weights, or their gradient */
	float *apart;         /* gradient of a group */
	float *image;         /* of a share, in floats */
};

static int64_t quads(int64_t floats)
{
	return (floats + 3) / 4 * 4;
}

static size_t product_bytes(const struct shape *s, const struct orr_device *d, int64_t share)
{
	size_t bytes =
		d->kernels->workspace_bytes(d->precision, share * s->places, s->seen, s->features);

	return (bytes + 255) / 256 * 256;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	struct shape s = shape_of(is);
	int64_t share = share_of(&s, d, n), weights = s.features * s.seen;
	int64_t floats =
		quads(share * s.places * s.seen) + quads(share * s.places * s.features) +
		quads(s.groups * weights) + quads(weights + s.features) +
		(d->precision == ORR_PRECISION_BF16 ? share * orr_window_image(&s.window) : 0);

	return product_bytes(&s, d, share) + (size_t)floats * sizeof(float);
}

static struct room room_of(const struct orr_call *c, const struct shape *s)
{
	int64_t share = share_of(s, c->device, c->n);
	char *at = (char *)c->device->workspace + product_bytes(s, c->device, share);
	struct room room = {.share = share, .unfolded = (float *)(void *)at};

	room.features = room.unfolded + quads(share * s->places * s->seen);
	room.turned = room.features + quads(share * s->places * s->features);
	room.apart = room.turned + quads(s->groups * s->features * s->seen);
	room.image = room.apart + quads(s->features * s->seen + s->features);
	room.weights = s->window.side > 1 ? room.turned : c->parameters;
	return room;
}

/* A window of one pixel at a time that sees all channels: the image itself is the matrix. */
static bool is_plain(const struct shape *s)
{
	const struct orr_window *w = &s->window;

	return w->side == 1 && w->stride == 1 && !w->padding && s->groups == 1;
}

static void prepare(const struct orr_instance *is, struct orr_device *d, int64_t n)
{
	struct shape s = shape_of(is);
	bool halves = d->halves;

	for (int i = 0; i < (halves && !is_plain(&s) ? 2 : 1) && d->kernels->linear->prepare; i++) {
		d->kernels->linear->prepare(d, share_of(&s, d, n) * s.places, s.seen, s.features,
					    is->values[BIAS] > 0);
		d->halves = false; /* as part_input() has it */
	}
	d->halves = halves;
}

/* Floats whose place so many activations take. */
static int64_t stored(const struct orr_call *c, int64_t values)
{
	return orr_stored_floats(values, c->halves);
}

/* Group g of a share of n samples, from sample `first` on. */
struct part {
	int64_t first, n, g;
};

/* Of a window of one pixel the weights are a linear's, and rounded as its are. */
static const void *rounded(const struct orr_call *c)
{
	return c->is->rounded ? c->rounded : NULL;
}

/* What the window sees. */
static const float *unfold(const struct orr_call *c, const struct shape *s, struct part p,
			   const struct room *room)
{
	struct orr_window w = s->window;
	const float *x = room->x + p.first * stored(c, orr_window_image(&w));

	if (is_plain(s))
		return x;
	w.first = p.g * w.count;
	w.count = stored(c, w.count); /* two bfloat16 are moved as a float */
	w.channels = stored(c, w.channels);
	c->kernels->images->unfold(c->device, p.n, &w, x, room->unfolded);
	return room->unfolded;
}

/* The features' gradient. */
static const float *gradient_of(const struct orr_call *c, const struct shape *s, struct part p,
				const struct room *room)
{
	int64_t all = s->groups * s->features;
	const float *dy = room->dy + p.first * s->places * stored(c, all);

	if (s->groups == 1)
		return dy;
	orr_call_move_columns(c, p.n * s->places, s->features, dy + p.g * s->features, all,
			      room->features, s->features);
	return room->features;
}

static void part_forward(const struct orr_call *c, const struct shape *s, struct part p,
			 const struct room *room)
{
	int64_t rows = p.n * s->places, all = s->groups * s->features, weights = all * s->seen;
	const float *bias = c->is->n_parameters > 1 ? c->parameters + weights : NULL;
	float *y = orr_call_output(c) + p.first * s->places * stored(c, all);

	c->kernels->linear->forward(c->device, rows, s->seen, s->features, unfold(c, s, p, room),
				    room->weights + p.g * s->features * s->seen, rounded(c),
				    bias ? bias + p.g * s->features : NULL,
				    s->groups == 1 ? y : room->features);
	if (s->groups > 1)
		orr_call_move_columns(c, rows, s->features, room->features, s->features,
				      y + p.g * s->features, all);
}

/* What several places say of a pixel is added up in floats, and rounded once. */
static void part_input(const struct orr_call *c, const struct shape *s, struct part p,
		       const struct room *room)
{
	struct orr_window w = s->window;
	bool plain = is_plain(s), halves = c->halves && !plain;
	int64_t rows = p.n * s->places, pixels = p.n * orr_window_image(&w);
	float *dx = orr_call_input_gradient(c, 0) + p.first * stored(c, orr_window_image(&w));
	const float *dy = gradient_of(c, s, p, room);

	if (halves) {
		c->kernels->elements->widen(c->device, rows * s->features, dy, room->features);
		dy = room->features;
		c->device->halves = false;
	}
	c->kernels->linear->input(c->device, rows, s->seen, s->features, dy,
				  room->weights + p.g * s->features * s->seen, rounded(c),
				  plain ? dx : room->unfolded);
	w.first = p.g * w.count;
	if (!plain)
		c->kernels->images->fold(c->device, p.n, &w, room->unfolded,
					 halves ? room->image : dx);
	if (halves) {
		c->kernels->elements->narrow(c->device, pixels, pixels, room->image, false, dx);
		c->device->halves = true;
	}
}

/* Weights and their gradient turn from [channels][pixels] to [pixels][channels] and back. */
static void turn(const struct orr_call *c, const struct shape *s, bool back, const float *from,
		 float *to)
{
	int64_t pixels = s->window.side * s->window.side, channels = s->window.count;

	c->kernels->images->turn(c->device, s->groups * s->features, back ? pixels : channels,
				 back ? channels : pixels, from, to);
}

static void turn_weights(const struct orr_call *c, const struct shape *s, const struct room *room)
{
	if (room->weights == room->turned)
		turn(c, s, false, c->parameters, room->turned);
}

static void part_weight(const struct orr_call *c, const struct shape *s, struct part p,
			const struct room *room)
{
	const float *x = unfold(c, s, p, room);

	c->kernels->linear->weight(c->device, p.n * s->places, s->seen, s->features, x,
				   gradient_of(c, s, p, room), p.first ? room->apart : NULL,
				   room->sum + p.g * s->features * s->seen,
				   room->bias ? room->bias + p.g * s->features : NULL);
}

static void each_part(const struct orr_call *c, const struct shape *s, const struct room *room,
		      void (*f)(const struct orr_call *, const struct shape *, struct part,
				const struct room *))
{
	for (int64_t first = 0; first < c->n; first += room->share)
		for (int64_t g = 0; g < s->groups; g++) {
			int64_t rest = c->n - first, n = rest < room->share ? rest : room->share;

			f(c, s, (struct part){first, n, g}, room);
		}
}

static void forward(const struct orr_call *c)
{
	struct shape s = shape_of(c->is);
	struct room room = room_of(c, &s);

	room.x = orr_call_input(c, 0);
	turn_weights(c, &s, &room);
	each_part(c, &s, &room, part_forward);
}

/* The shares' gradients of the weights are added up in their order, and then turned. */
static void backward(const struct orr_call *c)
{
	struct shape s = shape_of(c->is);
	struct room room = room_of(c, &s);

	if (c->inputs) {
		room.dy = orr_call_gradient(c);
		turn_weights(c, &s, &room);
		each_part(c, &s, &room, part_input);
	}
	if (!c->slope)
		return;
	room.x = orr_call_input(c, 0);
	room.dy = orr_call_gradient(c);
	room.sum = s.window.side > 1 ? room.turned : c->slope;
	room.bias = c->is->n_parameters > 1 ? c->slope + s.groups * s.features * s.seen : NULL;
	each_part(c, &s, &room, part_weight);
	c->device->halves = false; /* these are no activations */
	if (room.sum != c->slope)
		turn(c, &s, true, room.sum, c->slope);
}

const struct orr_op orr_op_conv2d = {
	.name = "conv2d",
	.kept = ORR_OUTPUT_HALF,
	.halves = true,
	ORR_READS(1, 1),
	.attributes = attributes,
	.weight_reads = ORR_READS_INPUTS,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	.round = orr_linear_round,
	.prepare = prepare,
};

/* Several nodes that are one operator here, as exporters write what older sets of operators do not
 * have: found from the last node backwards. */
#include "rules.h"

#include <math.h>
#include <string.h>

/* The other of two inputs; NULL: t is none of them. */
static struct orr_onnx_tensor *other(const struct orr_onnx_node *n, const struct orr_onnx_tensor *t)
{
	return n->n_in != 2 ? NULL : n->in[0] == t ? n->in[1] : n->in[1] == t ? n->in[0] : NULL;
}

/* The input that a node of two makes by a `kind`, into node; *rest: the other one. */
static bool has(struct orr_onnx_pattern *p, const struct orr_onnx *x, const struct orr_onnx_node *n,
		const char *kind, struct orr_onnx_node *node, struct orr_onnx_tensor **rest)
{
	for (int i = 0; i < 2 && n->n_in == 2; i++)
		if (orr_onnx_made_by(p, x, n->in[i], kind, node)) {
			*rest = n->in[!i];
			return true;
		}
	return false;
}

static bool is_near(struct orr_onnx *x, const struct orr_onnx_tensor *t, double value)
{
	float number;

	return orr_onnx_number(x, t, &number) && fabs((double)number - value) < 1e-4 * fabs(value);
}

/* Is it x times x? */
static bool is_square(struct orr_onnx_pattern *p, const struct orr_onnx_tensor *t,
		      struct orr_onnx *x, const struct orr_onnx_tensor *of)
{
	struct orr_onnx_node square;

	if (orr_onnx_made_by(p, x, t, "Pow", &square))
		return square.in[0] == of && square.n_in == 2 && is_near(x, square.in[1], 2);
	return orr_onnx_made_by(p, x, t, "Mul", &square) && square.in[0] == of &&
	       other(&square, of) == of;
}

/* ---- layernorm: (x - mean) / sqrt(mean of squares + epsilon) * gain + bias ---- */

static bool is_mean_of_rows(const struct orr_onnx_node *n)
{
	const int64_t *axes;

	return orr_onnx_list(n, "axes", 1, &axes) == 1 && n->in[0]->known &&
	       orr_onnx_axis(axes[0], n->in[0]->n_dims) == n->in[0]->n_dims - 1 &&
	       orr_onnx_int(n, "keepdims", 1);
}

/* The differences from the mean, which two nodes read. */
static bool is_centred(struct orr_onnx_pattern *p, const struct orr_onnx *x,
		       const struct orr_onnx_tensor *t)
{
	struct orr_onnx_node sub, mean;

	if (!t || t->constant || t->made_by < 0 || t->n_readers != 2 || x->claimed[t->made_by])
		return false;
	orr_onnx_node(&sub, x, t->made_by);
	if (!sub.op || strcmp(sub.op->name, "Sub") != 0 || sub.n_in != 2 || !sub.in[0] ||
	    p->n_inner == ORR_ONNX_MOST_INNER)
		return false;
	p->inner[p->n_inner++] = t->made_by;
	p->in[0] = sub.in[0];
	return orr_onnx_made_by(p, x, sub.in[1], "ReduceMean", &mean) && mean.in[0] == sub.in[0] &&
	       is_mean_of_rows(&mean);
}

/* Is it the root of the mean of the squares in each row, and epsilon? */
static bool is_length(struct orr_onnx_pattern *p, const struct orr_onnx_tensor *t,
		      struct orr_onnx *x, const struct orr_onnx_tensor *of)
{
	struct orr_onnx_node root, add, mean;
	struct orr_onnx_tensor *epsilon;
	float number;

	if (!orr_onnx_made_by(p, x, t, "Sqrt", &root) ||
	    !orr_onnx_made_by(p, x, root.in[0], "Add", &add) ||
	    !has(p, x, &add, "ReduceMean", &mean, &epsilon) || !is_mean_of_rows(&mean) ||
	    !orr_onnx_number(x, epsilon, &number) || !(number >= 1e-30f) || number > 1)
		return false;
	p->epsilon = (double)number;
	return is_square(p, mean.in[0], x, of);
}

static bool find_layernorm(struct orr_onnx_pattern *p, struct orr_onnx *x,
			   const struct orr_onnx_node *n)
{
	struct orr_onnx_node mul, div;

	p->kind = ORR_ONNX_LAYERNORM;
	return has(p, x, n, "Mul", &mul, &p->bias) && has(p, x, &mul, "Div", &div, &p->gain) &&
	       div.n_in == 2 && is_length(p, div.in[1], x, div.in[0]) &&
	       is_centred(p, x, div.in[0]);
}

/* ---- rmsnorm: x / sqrt(mean of squares + epsilon) * gain ---- */

static bool find_rmsnorm(struct orr_onnx_pattern *p, struct orr_onnx *x,
			 const struct orr_onnx_node *n)
{
	struct orr_onnx_node by, inverse;

	p->kind = ORR_ONNX_RMSNORM;
	if (has(p, x, n, "Div", &by, &p->gain)) {
		p->in[0] = by.in[0];
		return by.n_in == 2 && !p->in[0]->constant && is_length(p, by.in[1], x, p->in[0]);
	}
	return has(p, x, n, "Mul", &by, &p->gain) &&
	       has(p, x, &by, "Reciprocal", &inverse, &p->in[0]) && p->in[0] &&
	       !p->in[0]->constant && is_length(p, inverse.in[0], x, p->in[0]);
}

/* ---- gelu: x * (1 + erf(x / sqrt 2)) * 0.5, in any order; or tanh for erf ---- */

/* sqrt(2 / pi) * (x + 0.044715 * x * x * x); *of: x. */
static bool is_cubic(struct orr_onnx_pattern *p, struct orr_onnx *x,
		     const struct orr_onnx_tensor *t, struct orr_onnx_tensor **of)
{
	struct orr_onnx_node scaled, sum, term, cube;
	struct orr_onnx_tensor *root, *factor, *rest;

	if (!orr_onnx_made_by(p, x, t, "Mul", &scaled) || !has(p, x, &scaled, "Add", &sum, &root) ||
	    !is_near(x, root, M_2_SQRTPI * M_SQRT1_2) || !has(p, x, &sum, "Mul", &term, of))
		return false;
	if (has(p, x, &term, "Pow", &cube, &factor))
		return is_near(x, factor, 0.044715) && cube.in[0] == *of && cube.n_in == 2 &&
		       is_near(x, cube.in[1], 3);
	return has(p, x, &term, "Mul", &cube, &factor) && is_near(x, factor, 0.044715) &&
	       (rest = other(&cube, *of)) && is_square(p, rest, x, *of);
}

/* 1 + erf(x / sqrt 2), or of tanh; *of: x. */
static bool is_bell(struct orr_onnx_pattern *p, struct orr_onnx *x, const struct orr_onnx_node *add,
		    struct orr_onnx_tensor **of)
{
	struct orr_onnx_node erf, scaled;
	struct orr_onnx_tensor *one;

	if (has(p, x, add, "Tanh", &erf, &one)) {
		p->kind = ORR_ONNX_GELU_TANH;
		return is_near(x, one, 1) && is_cubic(p, x, erf.in[0], of);
	}
	if (!has(p, x, add, "Erf", &erf, &one) || !is_near(x, one, 1))
		return false;
	if (orr_onnx_made_by(p, x, erf.in[0], "Div", &scaled)) {
		*of = scaled.in[0];
		return scaled.n_in == 2 && is_near(x, scaled.in[1], M_SQRT2);
	}
	if (!orr_onnx_made_by(p, x, erf.in[0], "Mul", &scaled) || scaled.n_in != 2)
		return false;
	*of = scaled.in[scaled.in[0]->constant];
	return is_near(x, other(&scaled, *of), M_SQRT1_2);
}

static bool find_gelu(struct orr_onnx_pattern *p, struct orr_onnx *x, const struct orr_onnx_node *n)
{
	struct orr_onnx_tensor *of = NULL, *rest, *half;
	struct orr_onnx_node inner, add;

	p->kind = ORR_ONNX_GELU;
	if (has(p, x, n, "Add", &add, &rest)) { /* (x * 0.5) * (..) */
		if (!is_bell(p, x, &add, &of) || !orr_onnx_made_by(p, x, rest, "Mul", &inner))
			return false;
		half = other(&inner, of);
	} else { /* (x * (..)) * 0.5 */
		if (!has(p, x, n, "Mul", &inner, &half) || !has(p, x, &inner, "Add", &add, &rest) ||
		    !is_bell(p, x, &add, &of) || rest != of)
			return false;
	}
	p->in[0] = of;
	return of && !of->constant && half && is_near(x, half, 0.5);
}

/* ---- normalise: x / max(length of the row, epsilon) ---- */

static bool find_normalise(struct orr_onnx_pattern *p, struct orr_onnx *x,
			   const struct orr_onnx_node *n)
{
	struct orr_onnx_node expand, clip, length;
	const struct orr_onnx_tensor *t = n->n_in == 2 ? n->in[1] : NULL;
	float least;

	p->kind = ORR_ONNX_NORMALISE;
	if (!t || !n->in[0])
		return false;
	if (orr_onnx_made_by(p, x, t, "Expand", &expand))
		t = expand.in[0];
	if (!orr_onnx_made_by(p, x, t, "Clip", &clip) || clip.n_in < 2 ||
	    (clip.n_in > 2 && clip.in[2]) || !orr_onnx_number(x, clip.in[1], &least) ||
	    !(least > 0) || least > 1 || !orr_onnx_made_by(p, x, clip.in[0], "ReduceL2", &length) ||
	    length.in[0] != n->in[0] || !is_mean_of_rows(&length))
		return false;
	p->in[0] = n->in[0];
	p->epsilon = (double)least;
	return true;
}

/* ---- any ---- */

static bool try(struct orr_onnx_pattern *p, struct orr_onnx *x, const struct orr_onnx_node *n,
		bool (*find)(struct orr_onnx_pattern *, struct orr_onnx *,
			     const struct orr_onnx_node *))
{
	*p = (struct orr_onnx_pattern){.scale = 1, .last = n->number};
	if (find(p, x, n))
		return true;
	p->n_inner = 0;
	return false;
}

bool orr_onnx_find_pattern(struct orr_onnx_pattern *p, struct orr_onnx *x,
			   const struct orr_onnx_node *n)
{
	if (!n->op || !n->n_out || !n->out[0] || !n->out[0]->known || !n->out[0]->real)
		return false;
	switch (n->op->name[0]) {
	case 'A':
		return !strcmp(n->op->name, "Add") && try(p, x, n, find_layernorm);
	case 'D':
		return !strcmp(n->op->name, "Div") && try(p, x, n, find_normalise);
	case 'M':
		return (!strcmp(n->op->name, "Mul") &&
			(try(p, x, n, find_gelu) || try(p, x, n, find_rmsnorm))) ||
		       (!strcmp(n->op->name, "MatMul") && try(p, x, n, orr_onnx_find_attention));
	default:
		return false;
	}
}

int orr_onnx_add_pattern(struct orr_onnx *x, struct orr_onnx_node *n,
			 const struct orr_onnx_pattern *p, bool *added, struct orr_error *err)
{
	static const char *const ops[] = {[ORR_ONNX_LAYERNORM] = "layernorm",
					  [ORR_ONNX_RMSNORM] = "rmsnorm",
					  [ORR_ONNX_GELU] = "gelu",
					  [ORR_ONNX_GELU_TANH] = "gelu_tanh",
					  [ORR_ONNX_NORMALISE] = "normalise"};
	const struct orr_onnx_tensor *t = p->in[0];
	bool wise = p->kind == ORR_ONNX_GELU || p->kind == ORR_ONNX_GELU_TANH;
	struct orr_onnx_like like = {.also = -1};
	struct orr_operator *o;
	int code;

	if (p->kind == ORR_ONNX_ATTENTION)
		return orr_onnx_add_attention(x, n, p, added, err);
	if (!t->known || !t->real || t->n_dims != n->out[0]->n_dims ||
	    t->rows * t->columns > ORR_MOST_COLUMNS ||
	    !(wise ? orr_onnx_is_whole(x, t) : orr_onnx_is_plain(x, t)) ||
	    (p->gain && !orr_onnx_is_weight(p->gain, 1, t->columns)) ||
	    (p->bias && !orr_onnx_is_weight(p->bias, 1, t->columns)))
		return 0;
	if (p->gain)
		orr_onnx_take(&like, "gain", p->gain, 1);
	if (p->bias)
		orr_onnx_take(&like, "bias", p->bias, 1);
	if (!(o = orr_onnx_add(x, ops[p->kind], orr_onnx_name(n->proto), NULL, n->number + 1, err)))
		return ORR_E_NOMEM;
	if (p->epsilon > 0)
		orr_onnx_set(o, "epsilon", p->epsilon);
	n->out[0]->is = x->draft->n_operators - 1;
	orr_onnx_lay_as(n->out[0], t, t->rows, t->columns);
	*added = true;
	if ((code = orr_onnx_add_sources(x, &like, err)))
		return code;
	return orr_draft_add_edge(x->draft, t->is, n->out[0]->is, -1, err);
}

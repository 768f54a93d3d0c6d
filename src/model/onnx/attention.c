/* Attention as exporters write it: heads of queries times heads of keys that are turned, a factor,
 * a mask, softmax, times heads of values. Heads are views of what queries, keys and values are. */
#include "rules.h"

#include <math.h>
#include <string.h>

#include "codelets/sizes.h"

/* ---- found ---- */

/* Times constants: skipped, and taken into scale. */
static struct orr_onnx_tensor *unscaled(struct orr_onnx_pattern *p, struct orr_onnx *x,
					struct orr_onnx_tensor *t)
{
	struct orr_onnx_node n;
	bool times;
	float factor;

	while (t && ((times = orr_onnx_made_by(p, x, t, "Mul", &n)) ||
		     orr_onnx_made_by(p, x, t, "Div", &n))) {
		bool second = times && n.in[0]->constant;

		if (n.n_in != 2 || !n.in[1] || !orr_onnx_number(x, n.in[!second], &factor) ||
		    !(fabsf(factor) > 1e-9f) || fabsf(factor) > 1e9f) {
			p->n_inner--; /* another product */
			return t;
		}
		p->scale *= times ? (double)factor : 1 / (double)factor;
		t = n.in[second];
	}
	return t;
}

/* Rows and columns of the scores. */
static bool masks(struct orr_onnx_pattern *p, struct orr_onnx *x,
		  const struct orr_onnx_tensor *scores, const struct orr_onnx_tensor *mask,
		  enum orr_onnx_mask kind)
{
	int last = scores->n_dims - 1;

	p->causal = scores->known && last > 0 &&
		    orr_onnx_is_causal(x, mask, kind, scores->dims[last - 1], scores->dims[last]);
	return p->causal;
}

/* The scores below a mask, which is added or chooses; t itself: there is none; NULL: it hides
 * something else than what comes later. */
static struct orr_onnx_tensor *unmasked(struct orr_onnx_pattern *p, struct orr_onnx *x,
					struct orr_onnx_tensor *t)
{
	struct orr_onnx_node n;
	float hidden;

	if (orr_onnx_made_by(p, x, t, "Add", &n)) {
		bool second = n.in[0]->constant;

		if (n.n_in != 2 || !n.in[1] || !masks(p, x, t, n.in[!second], ORR_ONNX_ADDED))
			return NULL;
		return n.in[second];
	}
	if (orr_onnx_made_by(p, x, t, "Where", &n)) {
		bool shows = n.n_in == 3 && n.in[1] && !n.in[1]->constant;

		if (n.n_in != 3 || !n.in[1] || !n.in[2] || !n.in[0]->constant ||
		    !orr_onnx_number(x, n.in[1 + shows], &hidden) || !(hidden <= -1e4f))
			return NULL;
		if (!masks(p, x, t, n.in[0], shows ? ORR_ONNX_SHOWS : ORR_ONNX_HIDES))
			return NULL;
		return n.in[2 - shows];
	}
	return t;
}

bool orr_onnx_find_attention(struct orr_onnx_pattern *p, struct orr_onnx *x,
			     const struct orr_onnx_node *n)
{
	struct orr_onnx_node softmax, product, dropout;
	struct orr_onnx_tensor *t = n->n_in == 2 ? n->in[0] : NULL;

	p->kind = ORR_ONNX_ATTENTION;
	if (t && orr_onnx_made_by(p, x, t, "Identity", &dropout))
		t = dropout.in[0];
	if (!t || !orr_onnx_made_by(p, x, t, "Softmax", &softmax) || !softmax.in[0]->known ||
	    orr_onnx_axis(orr_onnx_int(&softmax, "axis", x->version < 13 ? 1 : -1),
			  softmax.in[0]->n_dims) != softmax.in[0]->n_dims - 1)
		return false;
	t = unscaled(p, x, softmax.in[0]);
	if (!(t = unmasked(p, x, t)) || !(t = unscaled(p, x, t)) ||
	    !orr_onnx_made_by(p, x, t, "MatMul", &product) || product.n_in != 2 || !product.in[1])
		return false;
	p->in[0] = unscaled(p, x, product.in[0]);
	p->in[1] = unscaled(p, x, product.in[1]);
	p->in[2] = n->in[1];
	return p->in[2] && !p->in[0]->constant && !p->in[1]->constant && !p->in[2]->constant;
}

/* ---- added ---- */

/* The operator whose rows are the heads of t beside each other. */
static int join(struct orr_onnx *x, struct orr_onnx_tensor *t, const struct orr_onnx_box *box,
		bool apart, struct orr_error *err)
{
	if (!apart && !box->row && !box->column && box->rows == t->rows &&
	    box->columns == t->columns)
		return 0;
	return orr_onnx_cut(x, t, box, err);
}

/* Scores are divided by the root of a head's width here. */
static int rescale(struct orr_onnx *x, struct orr_onnx_tensor *queries, double factor,
		   struct orr_error *err)
{
	int from = queries->is;
	struct orr_operator *o;

	if (fabs(factor - 1) < 1e-5)
		return 0;
	if (!(o = orr_onnx_add(x, "scale", queries->name, NULL, queries->made_by + 1, err)))
		return ORR_E_NOMEM;
	orr_onnx_set(o, "factor", factor);
	queries->is = x->draft->n_operators - 1;
	return orr_draft_add_edge(x->draft, from, queries->is, -1, err);
}

/* What it writes, as the heads that its last product is. */
static void lay_heads(const struct orr_onnx *x, struct orr_onnx_tensor *t, int64_t rows,
		      int64_t columns)
{
	int row = t->n_dims - 2;

	orr_onnx_lay(t, rows, columns);
	t->strides[row] = columns;
	t->strides[row + 1] = 1;
	for (int i = row - 1; i >= 0; i--)
		t->strides[i] = t->dims[row + 1];
	for (int i = 0; i < row && x->samples > 1; i++)
		if (t->dims[i] == x->samples) {
			t->strides[i] = rows * columns;
			break;
		}
}

int orr_onnx_add_attention(struct orr_onnx *x, struct orr_onnx_node *n,
			   const struct orr_onnx_pattern *p, bool *added, struct orr_error *err)
{
	struct orr_onnx_tensor in[3] = {*p->in[0], *p->in[1], *p->in[2]}, *out = n->out[0];
	struct orr_onnx_box box[3];
	struct orr_operator *o;
	int64_t heads[3], width;
	int code = 0;

	for (int i = 0; i < 3; i++)
		if (!in[i].known || !in[i].real ||
		    !orr_onnx_is_heads(x, &in[i], i == 1, &box[i], &heads[i]) ||
		    heads[i] != heads[0] || box[i].columns != box[0].columns ||
		    (i == 2 && box[2].rows != box[1].rows) ||
		    in[i].rows * in[i].columns > ORR_MOST_COLUMNS)
			return 0;
	width = box[0].columns / heads[0]; /* of a head */
	if (out->n_dims < 3 || width > ORR_MOST_HEAD_WIDTH ||
	    orr_onnx_floats(out) != x->samples * box[0].rows * box[0].columns)
		return 0;
	*added = true;
	for (int i = 0; i < 3 && !code; i++) /* each is an operator of its own */
		code = join(x, &in[i], &box[i],
			    (i > 0 && in[i].is == in[0].is) || (i > 1 && in[i].is == in[1].is),
			    err);
	if (code || (code = rescale(x, &in[0], p->scale * sqrt((double)width), err)))
		return code;
	if (!(o = orr_onnx_add(x, "attention", orr_onnx_name(n->proto), NULL, n->number + 1, err)))
		return ORR_E_NOMEM;
	orr_onnx_set(o, "heads", (double)heads[0]);
	orr_onnx_set(o, "causal", p->causal);
	out->is = x->draft->n_operators - 1;
	lay_heads(x, out, box[0].rows, box[0].columns);
	for (int i = 0; i < 3 && !code; i++)
		code = orr_draft_add_edge(x->draft, in[i].is, out->is, -1, err);
	return code;
}

/* Models in ONNX: what is read of them, and what is refused. Their files, of a few hundred bytes,
 * are those of onnx/make; a test that needs another changes the messages. */
#include <check.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codelets/operator.h"
#include "model/draft.h"
#include "model/onnx_weights.h"
#include "suite.h"

#define MOST_BYTES 65536

struct file {
	uint8_t bytes[MOST_BYTES];
	size_t n;
};

static void load(struct file *f, const char *name)
{
	char path[4096];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/tests/onnx/%s.onnx", ORR_SOURCE, name);
	ck_assert_msg((file = fopen(path, "rb")) != NULL, "%s", path);
	f->n = fread(f->bytes, 1, sizeof(f->bytes), file);
	(void)fclose(file);
	ck_assert_uint_gt(f->n, 0);
}

static int read_bytes(struct orr_graph **g, const void *bytes, size_t n, struct orr_error *err)
{
	struct orr_draft draft = {0};
	int code;

	*g = NULL;
	if (!(code = orr_draft_init(&draft, "m.onnx", err)) &&
	    !(code = orr_onnx_read(&draft, bytes, n, err)))
		code = orr_draft_finish(g, &draft, err);
	orr_draft_fini(&draft);
	return code;
}

static struct orr_graph *read_file(const char *name)
{
	struct orr_error err = {""};
	struct orr_graph *g;
	struct file f;

	load(&f, name);
	ck_assert_msg(!read_bytes(&g, f.bytes, f.n, &err), "%s", err.msg);
	return g;
}

static const struct orr_operator *find(const struct orr_graph *g, const char *name)
{
	for (int i = 0; i < g->n_operators; i++)
		if (!strcmp(g->operators[i].name, name))
			return &g->operators[i];
	ck_abort_msg("no operator is called %s", name);
	return NULL;
}

static Onnx__ModelProto *unpack(const char *name)
{
	struct file f;
	Onnx__ModelProto *m;

	load(&f, name);
	m = onnx__model_proto__unpack(NULL, f.n, f.bytes);
	ck_assert_ptr_nonnull(m);
	return m;
}

/* Packs m, frees it and reads what was packed. */
static int read_model(struct orr_graph **g, Onnx__ModelProto *m, struct orr_error *err)
{
	size_t n = onnx__model_proto__get_packed_size(m);
	uint8_t *bytes = malloc(n + 1);
	int code;

	ck_assert_ptr_nonnull(bytes);
	ck_assert_uint_eq(onnx__model_proto__pack(m, bytes), n);
	onnx__model_proto__free_unpacked(m, NULL);
	code = read_bytes(g, bytes, n, err);
	free(bytes);
	return code;
}

static Onnx__TensorShapeProto__Dimension *dimension(Onnx__ModelProto *m, int input, int i)
{
	return m->graph->input[input]->type->tensor_type->shape->dim[i];
}

static void set_number(Onnx__TensorShapeProto__Dimension *dim, int64_t number)
{
	if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
		free(dim->dim_param);
	dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
	dim->dim_value = number;
}

static void set_text(char **text, const char *to)
{
	free(*text);
	*text = strdup(to);
	ck_assert_ptr_nonnull(*text);
}

static Onnx__NodeProto *node(Onnx__ModelProto *m, const char *name)
{
	for (size_t i = 0; i < m->graph->n_node; i++)
		if (m->graph->node[i]->name && !strcmp(m->graph->node[i]->name, name))
			return m->graph->node[i];
	ck_abort_msg("no node is called %s", name);
	return NULL;
}

/* ---- what is read ---- */

static const struct {
	const char *file, *name, *op;
	int64_t rows, width, forward, weights;
} operators[] = {
	{"mlp", "x", "input", 1, 64, 64, 0},
	{"mlp", "fc1", "linear", 1, 128, 2 * 64 * 128, 64 * 128 + 128},
	{"mlp", "act", "relu", 1, 128, 128, 0},
	{"mlp", "fc2", "linear", 1, 10, 2 * 128 * 10, 128 * 10 + 10}, /* with the Add behind it */
	{"mlp", "loss", "softmax_cross_entropy", 1, 1, 5 * 10, 0},
	{"cnn", "x", "input", 64, 64, 64, 0},
	{"cnn", "conv", "conv2d", 64, 64 * 16, 2 * 64 * 16 * 9, 16 * 9 + 16},
	{"cnn", "bn", "batchnorm", 64, 64 * 16, 8 * 64 * 16, 4 * 16},
	{"cnn", "conv2", "conv2d", 64, 64 * 16, 2 * 64 * 16 * 16 * 9, 16 * 16 * 9},
	{"cnn", "sum", "add", 64, 64 * 16, 64 * 16, 0},
	{"cnn", "pool", "max_pool", 16, 16 * 16, 4 * 16 * 16, 0},
	{"cnn", "gap", "mean", 1, 16, 16 * 16, 0},
	{"cnn", "fc", "linear", 1, 10, 2 * 16 * 10, 16 * 10 + 10},
	/* its table is read by the last product as well, where it does not count again */
	{"block", "embed", "opaque", 16, 16 * 32, 0, 100 * 32},
	{"block", "head", "opaque", 16, 16 * 100, 2 * 16 * 32 * 100, 0},
	{"block", "places", "positions", 16, 16 * 32, 16 * 32, 16 * 32},
	{"block", "q", "linear", 16, 16 * 32, 2 * 16 * 32 * 32, 32 * 32 + 32},
	/* of shapes that nodes compute of shapes: 4 heads of 8 columns */
	/* of shapes that nodes compute of shapes: 4 heads of 8 columns of all three, and no factor
	 */
	{"block", "values", "attention", 16, 16 * 32, 2 * 2 * 16 * 16 * 32, 0},
	{"block", "qt", "slice", 16, 16 * 32, 0, 0},
	{"block", "kt", "slice", 16, 16 * 32, 0, 0},
	{"block", "gate", "opaque", 16, 16 * 32, 0, 0},
	/* normalisation and gelu of several nodes, and a third of a product's columns */
	{"decoder", "n1", "layernorm", 8, 64, 8 * 64, 16},
	{"decoder", "gelu", "gelu", 8, 128, 8 * 128, 0},
	{"decoder", "vt", "slice", 8, 64, 0, 0},
	{"decoder", "add_places", "positions", 8, 64, 64, 64},          /* of a table of 12 */
	{"decoder", "attention", "attention", 8, 64, 2 * 8 * 8 * 8, 0}, /* half of it, the mask's */
	{"decoder", "loss", "softmax_cross_entropy", 1, 1, 5 * 8 * 17, 0},
	{"written", "norm", "rmsnorm", 1, 12, 4 * 12, 12},
	{"written", "gelu", "gelu_tanh", 1, 12, 9 * 12, 0},
	{"written", "loss", "softmax_cross_entropy", 1, 1, 5 * 10,
	 0}, /* of which -100 is no class */
};

START_TEST(operators_have_the_sizes_and_operations_of_their_closed_forms)
{
	struct orr_graph *g = read_file(operators[_i].file);
	const struct orr_operator *o = find(g, operators[_i].name);

	ck_assert_str_eq(orr_operator_op(o), operators[_i].op);
	ck_assert_int_eq(o->rows, operators[_i].rows);
	ck_assert_int_eq(o->width, operators[_i].width);
	ck_assert_int_eq(o->forward_flops, operators[_i].forward);
	ck_assert_int_eq(o->n_parameters, operators[_i].weights);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(an_opaque_product_counts_its_gradients_operand_by_operand)
{
	Onnx__ModelProto *m = unpack("block");
	const struct orr_operator *scores, *head, *embed;
	struct orr_error err = {""};
	struct orr_graph *g;

	/* not over the keys, and so not attention */
	node(m, "soft")->attribute[0]->i = -2;
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	scores = find(g, "scores"), head = find(g, "head"), embed = find(g, "embed");
	/* of two activations, both of which its backward reads */
	ck_assert_int_eq(scores->forward_flops, 2 * 4 * 16 * 16 * 8);
	ck_assert_int_eq(scores->backward_flops, 2 * scores->forward_flops);
	ck_assert_int_eq(scores->weight_flops, 0);
	ck_assert_int_eq(scores->stash_floats, 2 * 16 * 32);
	/* of an activation and parameters */
	ck_assert_int_eq(head->backward_flops, head->forward_flops);
	ck_assert_int_eq(head->weight_flops, head->forward_flops);
	ck_assert_int_eq(head->stash_floats, 16 * 32);
	ck_assert_int_eq(embed->backward_flops, 0);
	orr_graph_destroy(g);
}
END_TEST

/* What the mask of "decoder" becomes where one of its constants is another. */
static const struct {
	const char *constant;
	float value;
	bool found;
} masks[] = {{"least", -1e30f, true}, {"least", -1e4f, true}, {"least", -1, false},
	     {"least", 1, false},     {"zero", 1, false},     {"one", 0, false},
	     {"root", 0, false}};

START_TEST(only_a_mask_that_hides_what_comes_later_makes_attention)
{
	Onnx__ModelProto *m = unpack("decoder");
	struct orr_error err = {""};
	struct orr_graph *g;
	bool found = false;

	for (size_t i = 0; i < m->graph->n_initializer; i++)
		if (!strcmp(m->graph->initializer[i]->name, masks[_i].constant))
			memcpy(m->graph->initializer[i]->raw_data.data, &masks[_i].value,
			       sizeof(float));
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	for (int i = 0; i < g->n_operators; i++)
		found = found || !strcmp(orr_operator_op(&g->operators[i]), "attention");
	ck_assert_int_eq(found, masks[_i].found);
	orr_graph_destroy(g);
}
END_TEST

START_TEST(an_operator_that_is_not_known_is_named_and_counts_as_nothing)
{
	struct orr_graph *g = read_file("block");
	const struct orr_operator *gate = find(g, "gate");

	ck_assert(!orr_operator_is_counted(gate));
	ck_assert_str_eq(gate->label, "FancyGate");
	ck_assert_int_eq(gate->forward_flops + gate->backward_flops + gate->weight_flops, 0);
	for (int i = 0; i < g->n_operators; i++)
		ck_assert(orr_operator_is_counted(&g->operators[i]) == (&g->operators[i] != gate));
	orr_graph_destroy(g);
}
END_TEST

START_TEST(the_data_has_the_columns_of_the_inputs_beside_each_other)
{
	struct orr_graph *g = read_file("cnn");
	const struct orr_operator *x = find(g, "x"), *y = find(g, "y");

	for (int64_t i = 0; i < 64; i++)
		ck_assert_int_eq(x->columns[i], i);
	ck_assert_int_eq(y->width, 1);
	ck_assert_int_eq(y->columns[0], 64);
	orr_graph_destroy(g);
}
END_TEST

/* ---- models that are changed ---- */

/* ONNX divides by the rows that count, and a loss here by all. */
START_TEST(a_loss_that_ignores_a_class_has_no_like_and_says_why)
{
	Onnx__ModelProto *m = unpack("written");
	Onnx__NodeProto *n = node(m, "loss");
	struct orr_error err = {""};
	struct orr_graph *g;

	ck_assert_str_eq(n->attribute[0]->name, "ignore_index");
	n->attribute[0]->i = 3;
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	ck_assert_str_eq(orr_operator_op(find(g, "loss")), "opaque");
	ck_assert_str_eq(
		find(g, "loss")->label,
		"SoftmaxCrossEntropyLoss with ignore_index: a mean over the rows that count");
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_batch_that_the_file_fixes_is_so_many_samples)
{
	static const char *const files[] = {"mlp", "cnn", "block", "numbers"};
	struct orr_graph *one = read_file(files[_i]), *many;
	Onnx__ModelProto *m = unpack(files[_i]);
	struct orr_error err = {""};

	for (size_t i = 0; i < m->graph->n_input; i++)
		set_number(dimension(m, (int)i, 0), 12);
	for (size_t i = 0; i < m->graph->n_value_info; i++)
		set_number(m->graph->value_info[i]->type->tensor_type->shape->dim[0], 12);
	ck_assert_msg(!read_model(&many, m, &err), "%s", err.msg);
	ck_assert_int_eq(many->n_operators, one->n_operators);
	for (int i = 0; i < one->n_operators; i++) {
		const struct orr_operator *a = &one->operators[i], *b = &many->operators[i];

		ck_assert_str_eq(a->name, b->name);
		ck_assert_str_eq(orr_operator_op(a), orr_operator_op(b));
		ck_assert_int_eq(a->width, b->width);
		ck_assert_int_eq(a->rows, b->rows);
		ck_assert_int_eq(a->forward_flops, b->forward_flops);
		ck_assert_int_eq(a->backward_flops, b->backward_flops);
		ck_assert_int_eq(a->weight_flops, b->weight_flops);
		ck_assert_int_eq(a->n_parameters, b->n_parameters);
		ck_assert_int_eq(a->stash_floats, b->stash_floats);
	}
	orr_graph_destroy(one);
	orr_graph_destroy(many);
}
END_TEST

START_TEST(a_model_without_a_loss_ends_where_its_outputs_are)
{
	Onnx__ModelProto *m = unpack("mlp");
	struct orr_error err = {""};
	struct orr_graph *g;

	set_text(&m->graph->output[0]->name, "logits");
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	ck_assert_str_eq(orr_operator_op(find(g, "logits")), "opaque");
	ck_assert_str_eq(find(g, "logits")->label, "an output: it needs a loss");
	ck_assert_int_eq(g->n_operators, 5); /* x, fc1, act, fc2: no label is read */
	orr_graph_destroy(g);
}
END_TEST

START_TEST(a_vector_that_is_read_twice_is_a_parameter_of_each_reader)
{
	Onnx__ModelProto *m = unpack("cnn");
	struct orr_error err = {""};
	int64_t n_parameters = 0;
	struct orr_graph *g;

	/* exporters write equal ones once */
	set_text(&node(m, "bn")->input[2], "g");
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	ck_assert_str_eq(orr_operator_op(find(g, "bn")), "batchnorm");
	for (int i = 0; i < g->n_operators; i++)
		n_parameters += g->operators[i].n_parameters;
	ck_assert_int_eq(n_parameters, 160 + 4 * 16 + 2304 + 170);
	orr_graph_destroy(g);
}
END_TEST

/* A copy, for a model to have as its own. */
static void *copy(const ProtobufCMessage *from)
{
	size_t n = protobuf_c_message_get_packed_size(from);
	uint8_t *bytes = malloc(n + 1);
	void *to;

	ck_assert_ptr_nonnull(bytes);
	ck_assert_uint_eq(protobuf_c_message_pack(from, bytes), n);
	to = protobuf_c_message_unpack(from->descriptor, NULL, n, bytes);
	ck_assert_ptr_nonnull(to);
	free(bytes);
	return to;
}

/* The file says that a tensor has so many columns. */
static void give_shape(Onnx__ModelProto *m, const char *name, int64_t columns)
{
	Onnx__ValueInfoProto *info = copy(&m->graph->input[0]->base);

	set_text(&info->name, name);
	set_number(info->type->tensor_type->shape->dim[1], columns);
	m->graph->value_info = malloc(sizeof(*m->graph->value_info));
	ck_assert_ptr_nonnull(m->graph->value_info);
	m->graph->value_info[m->graph->n_value_info++] = info;
}

/* A node becomes an If whose condition is a constant, and whose branch is that node. */
static void branch(Onnx__ModelProto *m, Onnx__NodeProto *n)
{
	Onnx__AttributeProto *a = malloc(sizeof(*a));
	Onnx__GraphProto *g = malloc(sizeof(*g));

	n->attribute = malloc(sizeof(*n->attribute));
	ck_assert(a && g && n->attribute && !n->n_attribute);
	onnx__attribute_proto__init(a);
	onnx__graph_proto__init(g);
	g->node = malloc(sizeof(*g->node));
	ck_assert_ptr_nonnull(g->node);
	g->node[g->n_node++] = copy(&n->base);
	a->name = strdup("then_branch");
	a->g = g;
	n->attribute[n->n_attribute++] = a;
	set_text(&n->op_type, "If");
	set_text(&n->input[0], m->graph->initializer[0]->name);
}

START_TEST(what_a_body_reads_from_outside_is_an_input_of_its_node)
{
	Onnx__ModelProto *m = unpack("mlp");
	struct orr_error err = {""};
	const struct orr_operator *act;
	struct orr_graph *g;

	branch(m, node(m, "act"));
	give_shape(m, "r", 128);
	ck_assert_msg(!read_model(&g, m, &err), "%s", err.msg);
	act = find(g, "act");
	ck_assert_str_eq(act->label, "If");
	ck_assert_int_eq(act->n_inputs, 1);
	ck_assert_ptr_eq(&g->operators[act->inputs[0]], find(g, "fc1"));
	orr_graph_destroy(g);
}
END_TEST

/* ---- what is refused ---- */

static void have_no_number(Onnx__ModelProto *m)
{
	set_number(dimension(m, 0, 1), 1);
	dimension(m, 0, 1)->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
	dimension(m, 0, 1)->dim_param = strdup("tokens");
}

static void have_two_batches(Onnx__ModelProto *m)
{
	set_number(dimension(m, 0, 0), 4);
	set_number(dimension(m, 1, 0), 8);
}

static void be_unknown(Onnx__ModelProto *m)
{
	set_text(&node(m, "act")->op_type, "Activate");
}

static void read_nothing(Onnx__ModelProto *m)
{
	set_text(&node(m, "act")->input[0], "nowhere");
}

static void read_what_comes_later(Onnx__ModelProto *m)
{
	set_text(&node(m, "fc1")->input[0], "r");
}

static void write_twice(Onnx__ModelProto *m)
{
	set_text(&node(m, "act")->output[0], "h");
}

static void not_fit(Onnx__ModelProto *m)
{
	m->graph->initializer[0]->dims[1] = 63;
}

static void be_huge(Onnx__ModelProto *m)
{
	m->graph->initializer[0]->dims[1] = INT64_MAX;
}

static void give_nothing(Onnx__ModelProto *m)
{
	set_text(&m->graph->output[0]->name, "nothing");
}

static void be_beyond(Onnx__ModelProto *m)
{
	set_number(dimension(m, 0, 1), INT64_C(1) << 62);
}

static void be_negative(Onnx__ModelProto *m)
{
	set_number(dimension(m, 0, 1), -5);
}

static void give_a_constant(Onnx__ModelProto *m)
{
	set_text(&m->graph->output[0]->name, "w1");
}

static const struct {
	void (*change)(Onnx__ModelProto *m);
	const char *message;
} refusals[] = {
	{have_no_number,
	 "m.onnx: input x: dimension 1 (tokens) has no number, as the batch alone may: "
	 "export the model with it fixed"},
	{have_two_batches,
	 "m.onnx: input y: its first dimension must be the batch, the same for every "
	 "input: export the model so"},
	{be_unknown, "m.onnx:2: node act: operator Activate is not known here, and the file has no "
		     "shape for r: run onnx.shape_inference on it, or export it with its shapes"},
	{read_nothing, "m.onnx:2: node act reads nowhere, which nothing before it makes: a damaged "
		       "model, export it again"},
	{read_what_comes_later,
	 "m.onnx:1: node fc1 reads r, which node 2 makes: they are in no order, export the model "
	 "again"},
	{write_twice, "m.onnx: tensor h is made twice: a damaged model, export it again"},
	{not_fit, "m.onnx:1: node fc1: no such Gemm: its inputs do not fit each other: a damaged "
		  "model, export it again"},
	{be_huge, "m.onnx: constant w1: no such shape: a damaged model, or one of more than 8 "
		  "dimensions"},
	{give_nothing,
	 "m.onnx: output nothing is made by no node: a damaged model, export it again"},
	{be_beyond,
	 "m.onnx: input x: dimension 1 is 4611686018427387904: it must be 0 to 10000000: "
	 "export the model with another"},
	{be_negative,
	 "m.onnx: input x: dimension 1 is -5: it must be 0 to 10000000: export the model "
	 "with another"},
	{give_a_constant, "m.onnx: no input changes its outputs: nothing to do"},
};

START_TEST(what_is_wrong_is_refused_in_a_line_that_names_it)
{
	Onnx__ModelProto *m = unpack("mlp");
	struct orr_error err = {""};
	struct orr_graph *g;

	refusals[_i].change(m);
	ck_assert_int_eq(read_model(&g, m, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, refusals[_i].message);
}
END_TEST

/* An attribute of these numbers, and the file's own word for the shape of what comes of it. */
static void set_ints(Onnx__ModelProto *m, Onnx__NodeProto *n, const char *name,
		     const int64_t *numbers, size_t count)
{
	Onnx__AttributeProto *a = malloc(sizeof(*a));
	Onnx__AttributeProto **all = realloc(n->attribute, (n->n_attribute + 1) * sizeof(*all));

	ck_assert(a && all);
	onnx__attribute_proto__init(a);
	a->name = strdup(name);
	a->has_type = a->has_i = count == 1;
	a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
	a->i = *numbers;
	a->n_ints = count;
	a->ints = malloc(count * sizeof(*a->ints));
	ck_assert_ptr_nonnull(a->ints);
	memcpy(a->ints, numbers, count * sizeof(*a->ints));
	all[n->n_attribute++] = a;
	n->attribute = all;
	set_text(&m->graph->output[0]->name, n->output[0]);
}

static const struct {
	const char *file, *node, *op, *attribute;
	int64_t numbers[3];
	size_t n;
	const char *why;
} impossible[] = {
	{"mlp", "act", "Transpose", "perm", {0, INT32_MAX}, 2, "perm is no order"},
	{"mlp", "act", "Transpose", "perm", {-1, 0}, 2, "perm is no order"},
	{"mlp", "act", "Transpose", "perm", {0, 0}, 2, "perm is no order"},
	{"mlp", "act", "Transpose", "perm", {0, 5000, 1}, 3, "perm has not as many numbers"},
	{"mlp", "act", "Concat", "axis", {9}, 1, "its inputs have no such axis"},
	{"mlp", "act", "Flatten", "axis", {9}, 1, "its input has no such axis"},
	{"mlp", "act", "Squeeze", "axes", {7}, 1, "its input has no such axis"},
	{"mlp", "act", "Unsqueeze", "axes", {7}, 1, "its output has no such axis"},
	{"mlp", "act", "Reshape", "shape", {-1, -1}, 2, "a shape has one -1 at most"},
	{"cnn", "conv", "Conv", "group", {0}, 1, "its groups of channels do not fit"},
	{"cnn", "conv", "Conv", "group", {2}, 1, "its groups of channels do not fit"},
	{"cnn", "conv", "Conv", "strides", {0, 0}, 2, "are 1 or more"},
	{"cnn", "conv", "Conv", "dilations", {9, 9}, 2, "its window is larger than what it reads"},
};

START_TEST(a_node_that_no_model_can_have_is_refused_whatever_shape_the_file_gives)
{
	Onnx__ModelProto *m = unpack(impossible[_i].file);
	Onnx__NodeProto *n = node(m, impossible[_i].node);
	struct orr_error err = {""};
	struct orr_graph *g;

	set_text(&n->op_type, impossible[_i].op);
	set_ints(m, n, impossible[_i].attribute, impossible[_i].numbers, impossible[_i].n);
	ck_assert_int_eq(read_model(&g, m, &err), ORR_E_INPUT);
	ck_assert_msg(strstr(err.msg, impossible[_i].why) != NULL, "%s", err.msg);
	ck_assert_msg(strstr(err.msg, impossible[_i].node) != NULL, "%s", err.msg);
}
END_TEST

/* A part of weight i, which is all behind the first along an axis, has the numbers that lie there.
 */
static void check_part(const struct orr_onnx_weights *w, int i, const float *whole, int axis)
{
	struct orr_parameter_tensor part = {.portion = {axis, 1, 0}};
	struct orr_error err = {""};
	struct orr_pieces pieces;
	const int64_t *dims;
	float *to;

	(void)orr_onnx_weights_entry(w, i, &part.n_dims, &dims);
	memcpy(part.dims, dims, (size_t)part.n_dims * sizeof(*dims));
	if (part.dims[axis] < 2)
		return;
	part.portion.of = part.dims[axis]--;
	pieces = orr_portion_pieces(&part.portion, part.n_dims, part.dims);
	ck_assert_ptr_nonnull(to = malloc((size_t)orr_parameter_floats(&part) * sizeof(*to)));
	ck_assert_msg(!orr_onnx_weights_read(w, i, &part, to, &err), "%s", err.msg);
	for (int64_t k = 0; k < pieces.n; k++)
		ck_assert_mem_eq(to + k * pieces.floats, whole + pieces.first + k * pieces.apart,
				 (size_t)pieces.floats * sizeof(*to));
	free(to);
}

/* Its weights, as numbers; from a file that has no name, and none beside it. */
static void try_weights(const uint8_t *bytes, size_t n)
{
	int fd = memfd_create("m.onnx", 0), n_dims;
	const struct orr_parameter_tensor all = {.n_dims = 0};
	struct orr_onnx_weights *w = NULL;
	struct orr_error err = {""};
	const int64_t *dims;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_eq(write(fd, bytes, n), (int)n);
	ck_assert(!orr_onnx_weights_open(&w, path, &err) == (w != NULL));
	for (int i = 0; w && i < orr_onnx_weights_count(w); i++) {
		int64_t floats = 1;
		float *to;

		ck_assert_ptr_nonnull(orr_onnx_weights_entry(w, i, &n_dims, &dims));
		for (int k = 0; k < n_dims; k++)
			floats *= dims[k];
		if (floats > 1 << 20) /* no caller has a tensor for it */
			continue;
		to = malloc((size_t)floats * sizeof(*to) + 1);
		ck_assert_ptr_nonnull(to);
		*err.msg = 0;
		ck_assert(!orr_onnx_weights_read(w, i, &all, to, &err) == !*err.msg);
		for (int axis = 0; axis < n_dims && !*err.msg; axis++)
			check_part(w, i, to, axis);
		free(to);
	}
	orr_onnx_weights_close(w);
	(void)close(fd);
}

/* Read, or refused in a line. */
static int try_bytes(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n + !n); /* its own, so that reading past its end is noticed */
	struct orr_error err = {""};
	struct orr_graph *g;
	int code;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, n);
	code = read_bytes(&g, copy, n, &err);
	ck_assert(!code == (g != NULL));
	ck_assert(!code || *err.msg);
	orr_graph_destroy(g);
	free(copy);
	if (!code)
		try_weights(bytes, n);
	return code;
}

START_TEST(no_damage_does_harm)
{
	static const char *const files[] = {"mlp", "cnn", "block", "numbers", "decoder"};
	int n_refused = 0;
	struct file f;

	load(&f, files[_i]);
	for (size_t n = 0; n < f.n; n++)
		n_refused += try_bytes(f.bytes, n) != 0;
	/* what is cut off is refused; the last field, the version, can be missing */
	ck_assert_int_ge(n_refused, (int)f.n - 12);
	for (size_t i = 0; i < f.n; i++)
		for (int bit = f.n > 2000 ? (int)i % 8 : 0; bit<8; bit += f.n> 2000 ? 8 : 1) {
			f.bytes[i] ^= (uint8_t)(1 << bit);
			(void)try_bytes(f.bytes, f.n);
			f.bytes[i] ^= (uint8_t)(1 << bit);
		}
	ck_assert_int_eq(try_bytes(f.bytes, f.n), 0);
}
END_TEST

/* A message of a field within one of another, depth times, from the inside. */
START_TEST(what_nests_too_deep_is_refused)
{
	static const uint8_t keys[] = {0x32, 0x2a, 0x0a}; /* a graph, an attribute, a node */
	enum { DEPTH = 30001 };
	uint8_t *bytes = malloc(6 * DEPTH), *at = bytes + (size_t)6 * DEPTH;
	struct orr_error err = {""};
	struct orr_graph *g;
	size_t n = 0;

	ck_assert_ptr_nonnull(bytes);
	for (int i = 0; i < DEPTH; i++) {
		for (size_t left = n, k = 0; k < 4; k++)
			at[(int)k - 4] = (uint8_t)((left >> (7 * k) & 0x7f) | (k < 3 ? 0x80 : 0));
		at -= 5;
		*at = i + 1 == DEPTH ? 0x3a : keys[i % 3];
		n += 5;
	}
	ck_assert_int_eq(read_bytes(&g, at, n, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, "m.onnx: no ONNX model, or a damaged one: export it again");
	free(bytes);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(operators_have_the_sizes_and_operations_of_their_closed_forms,
		     N_OF(operators)),
		ONCE(an_opaque_product_counts_its_gradients_operand_by_operand),
		EACH(only_a_mask_that_hides_what_comes_later_makes_attention, N_OF(masks)),
		ONCE(an_operator_that_is_not_known_is_named_and_counts_as_nothing),
		ONCE(the_data_has_the_columns_of_the_inputs_beside_each_other),
		EACH(a_batch_that_the_file_fixes_is_so_many_samples, 4),
		ONCE(a_model_without_a_loss_ends_where_its_outputs_are),
		ONCE(a_vector_that_is_read_twice_is_a_parameter_of_each_reader),
		ONCE(what_a_body_reads_from_outside_is_an_input_of_its_node),
		ONCE(a_loss_that_ignores_a_class_has_no_like_and_says_why),
		EACH(what_is_wrong_is_refused_in_a_line_that_names_it, N_OF(refusals)),
		EACH(a_node_that_no_model_can_have_is_refused_whatever_shape_the_file_gives,
		     N_OF(impossible)),
		EACH(no_damage_does_harm, 5),
		ONCE(what_nests_too_deep_is_refused),
	};

	return suite_run("onnx", tests, N_OF(tests));
}

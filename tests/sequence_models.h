#pragma once
/* Models of tensors of several rows, for the table in test_program.c. Columns 0 to 33 of the data
 * are numbers, 34 to 36 ids from 0 to 4, 37 and 38 ids from -1 to 4. */
#define SEQUENCE_MODEL(name, text) \
	{ \
		name, NULL, 0, 0, 0, "digraph m {" text "}" \
	}

/* An op between two linears, on a tensor of 4 x 6. */
#define AROUND(name, op) \
	SEQUENCE_MODEL(name, "x [op=input, columns=\"0:12\", rows=4]; a [op=linear, features=6];" \
			     "o [" op "]; b [op=linear, features=2]; loss [op=mse];" \
			     "t [op=input, columns=\"20:28\", rows=4];" \
			     "x -> a -> o -> b -> loss; t -> loss;")

/* The same, which leaves one row. */
#define ONE_ROW(name, op) \
	SEQUENCE_MODEL(name, "x [op=input, columns=\"0:12\", rows=4]; a [op=linear, features=6];" \
			     "o [" op "]; b [op=linear, features=2]; loss [op=mse];" \
			     "t [op=input, columns=\"20:22\"];" \
			     "x -> a -> o -> b -> loss; t -> loss;")

/* Queries of 4 rows, keys and values of 5. */
#define ATTEND(name, kv, op, more) \
	SEQUENCE_MODEL(name, "x [op=input, columns=\"0:12\", rows=4]; q [op=linear, features=6];" \
			     "z [op=input, columns=\"12:27\", rows=5];" \
			     "k [op=linear, features=" kv "]; v [op=linear, features=" kv "];" \
			     "o [op=attention, " op "]; b [op=linear, features=2];" \
			     "loss [op=mse]; t [op=input, columns=\"20:28\", rows=4]; x -> q;" \
			     "z -> k; z -> v; q -> o; k -> o; v -> o;" more \
			     "o -> b -> loss; t -> loss;")

#define SEQUENCE_MODELS \
	AROUND("silu", "op=silu"), AROUND("sigmoid", "op=sigmoid"), AROUND("tanh", "op=tanh"), \
		AROUND("gelu_tanh", "op=gelu_tanh"), AROUND("scale", "op=scale, factor=-0.7"), \
		AROUND("rmsnorm", "op=rmsnorm"), \
		AROUND("rmsnorm, epsilon", "op=rmsnorm, epsilon=0.3"), \
		AROUND("layernorm of rows", "op=layernorm, epsilon=0.3"), \
		AROUND("dropout", "op=dropout, rate=0.4"), AROUND("positions", "op=positions"), \
		AROUND("softmax", "op=softmax"), AROUND("normalise", "op=normalise"), \
		AROUND("rotary", "op=rotary, heads=3, base=10"), \
		AROUND("slice of columns", "op=slice, columns=\"2:5\""), \
		ONE_ROW("slice of a row", "op=slice, rows=\"2:3\""), \
		ONE_ROW("slice of both", "op=slice, rows=\"1:2\", columns=\"1:3\""), \
		ONE_ROW("first", "op=first"), ONE_ROW("last", "op=last"), \
		ONE_ROW("mean", "op=mean"), ONE_ROW("interaction of rows", "op=interaction"), \
		ATTEND("attention", "6", "heads=2", ""), \
		ATTEND("attention, causal", "6", "heads=3, causal=true", ""), \
		ATTEND("attention of a group", "3", "heads=2, kv_heads=1", ""), \
		ATTEND("attention of so many keys", "6", "heads=2", \
		       "n [op=input, columns=34]; n -> o;"), \
		SEQUENCE_MODEL("multiply", \
			       "x [op=input, columns=\"0:6\"]; a [op=linear, features=5];" \
			       "b [op=linear, features=5]; c [op=linear, features=5];" \
			       "m [op=multiply]; n [op=multiply]; loss [op=mse];" \
			       "t [op=input, columns=\"20:25\"]; x -> a; x -> b; x -> c;" \
			       "a -> m; b -> m; c -> m; m -> n; b -> n; n -> loss; t -> loss;"), \
		SEQUENCE_MODEL( \
			"concat of rows", \
			"x [op=input, columns=\"0:6\", rows=2]; a [op=linear, features=4];" \
			"z [op=input, columns=\"6:15\", rows=3]; b [op=linear, features=4];" \
			"c [op=concat, axis=rows]; p [op=positions]; d [op=linear, features=1];" \
			"loss [op=mse]; t [op=input, columns=\"20:25\", rows=5];" \
			"x -> a -> c; z -> b -> c -> p -> d -> loss; t -> loss;"), \
		SEQUENCE_MODEL( \
			"concat of columns of rows", \
			"x [op=input, columns=\"0:6\", rows=2]; a [op=linear, features=4];" \
			"z [op=input, columns=\"6:12\", rows=2]; b [op=linear, features=3];" \
			"c [op=concat]; d [op=linear, features=2];" \
			"loss [op=mse]; t [op=input, columns=\"20:24\", rows=2];" \
			"x -> a -> c; z -> b -> c -> d -> loss; t -> loss;"), \
		SEQUENCE_MODEL("interaction of inputs", \
			       "x [op=input, columns=\"0:6\", rows=2]; a [op=linear, features=4];" \
			       "z [op=input, columns=\"6:9\"]; b [op=linear, features=4];" \
			       "c [op=linear, features=4]; i [op=interaction]; d [op=linear, " \
			       "features=2];" \
			       "loss [op=mse]; t [op=input, columns=\"20:22\"]; x -> a -> i;" \
			       "z -> b -> i; z -> c -> i -> d -> loss; t -> loss;"), \
		SEQUENCE_MODEL( \
			"embedding", \
			"x [op=input, columns=\"34:37\", rows=3];" \
			"e [op=embedding, vocabulary=5, features=4]; p [op=positions];" \
			"b [op=linear, features=2]; loss [op=mse];" \
			"t [op=input, columns=\"20:26\", rows=3]; x -> e -> p -> b -> loss;" \
			"t -> loss;"), \
		SEQUENCE_MODEL( \
			"embedding in two parts", \
			"x [op=input, columns=\"34:37\", rows=3];" \
			"e [op=embedding, vocabulary=3, features=4, of=5];" \
			"f [op=embedding, vocabulary=2, features=4, first=3];" \
			"s [op=add]; p [op=positions]; b [op=linear, features=2]; loss [op=mse];" \
			"t [op=input, columns=\"20:26\", rows=3]; x -> e -> s; x -> f -> s;" \
			"s -> p -> b -> loss; t -> loss;"), \
		SEQUENCE_MODEL("a part of a bag", \
			       "x [op=input, columns=\"36:39\"]; y [op=input, columns=\"34:39\"];" \
			       "s [op=bag, vocabulary=2, first=1, of=5, features=3];" \
			       "m [op=bag, vocabulary=3, first=2, features=2, mode=mean];" \
			       "c [op=concat]; b [op=linear, features=2]; loss [op=mse];" \
			       "t [op=input, columns=\"20:22\"];" \
			       "x -> s -> c; y -> m -> c -> b -> loss; t -> loss;"), \
		SEQUENCE_MODEL("bags", \
			       "x [op=input, columns=\"36:39\"]; y [op=input, columns=\"34:39\"];" \
			       "s [op=bag, vocabulary=5, features=3];" \
			       "m [op=bag, vocabulary=7, features=2, mode=mean]; c [op=concat];" \
			       "b [op=linear, features=2]; loss [op=mse];" \
			       "t [op=input, columns=\"20:22\"];" \
			       "x -> s -> c; y -> m -> c -> b -> loss; t -> loss;")

/* What is refused, and the one line that says so: file, line, place, cure. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/graph.h"
#include "suite.h"

/* What many of the models begin with. */
#define STUDY "node [forward=1] "
#define MODEL "x [op=input, columns=\"0:4\"]; y [op=input, columns=4]; "
#define COST \
	" -- forward_compute_time=1, backward_compute_time=1, activation_size=9.0, " \
	"parameter_size=0.000"
/* What many of the messages say. */
#define ALLOWED \
	"stage, repeat, frozen, share, gather, gang, with, split, forward, backward, weight, " \
	"update, " \
	"activation, stash, parameters, length_exponent, or " \
	"what " \
	"Graphviz " \
	"draws with"
#define UNREAD \
	"nothing reads it: add an edge to what should, or take it away (a model ends in " \
	"a loss, such as mse)"

static const struct {
	const char *text, *message;
} refused[] = {
	{"", "m.dot: an empty file: a model is digraph { ... }"},
	{"   \n\n", "m.dot: an empty file: a model is digraph { ... }"},
	{"hello", "m.dot:1: no model: a DOT file begins with digraph {, and a PipeDream profile "
		  "with an operator"},
	{"12, 13\n", "m.dot:1: no model: a DOT file begins with digraph {, and a PipeDream profile "
		     "with an operator"},
	{"graph { a }", "m.dot:1: an undirected graph: write digraph for graph, and -> for --"},
	{"digraph", "m.dot:1: digraph wants { next"},
	{"digraph x", "m.dot:1: digraph wants { next"},
	{"digraph {", "m.dot:1: the file ends inside the graph: close it with }"},
	{"digraph { }", "m.dot: no operators: a model is digraph { a [op=input, ...]; ... }"},
	{"digraph { a [op=relu] } digraph { }",
	 "m.dot:1: something follows the graph: a file holds one"},
	{"digraph {\n a -- b\n}", "m.dot:2: an edge has a direction here: write -> for --"},
	{"digraph {\n a [op=relu\n", "m.dot:3: the file ends inside the graph: close it with }"},
	{"digraph { a [op=\"relu }", "m.dot:1: a string without an end: close it with \""},
	{"digraph {\n/* x", "m.dot:2: a comment without an end: close it with */"},
	{"digraph { a [label=<b }", "m.dot:1: an HTML label without an end: close it with >"},
	{"digraph {\n a [width=12x] }",
	 "m.dot:2: 12x is neither a name nor a number: put it in quotes"},
	{"digraph {\n a [forward=1.2ms] }",
	 "m.dot:2: 1.2ms is neither a name nor a number: put it in quotes"},
	{"digraph { a [x=] }", "m.dot:1: x= wants a value next"},
	{"digraph {\n\n a -> ; }",
	 "m.dot:3: syntax error near ';': see graphs/README.md for what may stand there"},
	{"digraph { a & b }", "m.dot:1: & has no place here: put names that hold it in quotes"},
	{"digraph { \x01"
	 " }",
	 "m.dot:1: no text (a byte 0x1)"},
	{"digraph { 1.2.3 }", "m.dot:1: 1.2.3 is neither a name nor a number: put it in quotes"},
	{"digraph { - }", "m.dot:1: - stands alone: put names that hold it in quotes"},
	{"digraph { a ] }",
	 "m.dot:1: syntax error near ']': see graphs/README.md for what may stand there"},
	{"digraph { a [op==relu] }", "m.dot:1: op= wants a value next"},
	{"digraph { a [op] }",
	 "m.dot:1: syntax error near ']': see graphs/README.md for what may stand there"},
	{"digraph { a } }", "m.dot:1: something follows the graph: a file holds one"},
	{"digraph {\n a ->\n strict }",
	 "m.dot:3: syntax error near 'strict': see graphs/README.md for what may stand there"},
	{"digraph {\n node;\n a }",
	 "m.dot:2: syntax error near ';': see graphs/README.md for what may stand there"},
	{"digraph {\n a +\n \"b\" }",
	 "m.dot:2: syntax error near '+': see graphs/README.md for what may stand there"},
	{"digraph {\n <a> -> b }",
	 "m.dot:2: syntax error near '<': see graphs/README.md for what may stand there"},
	{"digraph {\n \"a\" +\n \"b\" }",
	 "m.dot:2: node ab: neither an op nor costs: give it op=... (show [operators] lists them"
	 "), or forward=... and backward=... for a study"},
	{"digraph { node [forward=1]\n subgraph s { a } [forward=2] }",
	 "m.dot:2: forward is no attribute of an edge: use bytes, gradient_bytes and gradient, or "
	 "what Graphviz draws with"},
	{"digraph { frozen=true; a [forward=1] }", "m.dot:1: frozen: the whole graph cannot be "
						   "frozen: put what is not trained in a subgraph"},
	{"digraph {\n node [forward=1]; a [share=w]; a -> b }",
	 "m.dot:2: node a: share=w: no other node says so: name it on all that share parameters, "
	 "or take share away"},
	{"digraph {\n node [forward=1, share=w]; a;\n b [parameters=4]; a -> b }",
	 "m.dot:3: node b: share=w: the parameters of node a in line 2 have another shape or size: "
	 "make both nodes alike, or take share away"},
	{"digraph {\n node [forward=1, share=w]; a;\n b [frozen=true]; a -> b }",
	 "m.dot:3: node b: share=w: the parameters of node a in line 2 are frozen here or there "
	 "alone (frozen=true): make both nodes alike, or take share away"},
	{"digraph { x [op=input, columns=\"0:3\"]; t [op=input, columns=\"3:5\"]; l [op=mse];\n"
	 "a [op=linear, features=2, share=w]; b [op=linear, features=2, share=w];\n"
	 "x -> a -> b -> l; t -> l }",
	 "m.dot:2: node b: share=w: the parameters of node a in line 2 have another shape or size: "
	 "make both nodes alike, or take share away"},
	{"digraph { x [op=input, columns=\"0:3\"]; t [op=input, columns=\"3:6\"]; l [op=mse];\n"
	 "a [op=linear, features=3, share=w]; b [op=layernorm, share=w];\n"
	 "x -> a -> b -> l; t -> l }",
	 "m.dot:2: node b: share=w: the parameters of node a in line 2 are of another op: make "
	 "both "
	 "nodes alike, or take share away"},
	{"digraph { x [op=input, columns=\"0:3\"]; t [op=input, columns=\"3:6\"]; l [op=mse];\n"
	 "node [share=w]; a [op=relu]; b [op=relu]; x -> a -> b -> l; t -> l }",
	 "m.dot:2: node a: share=w: it has no parameters: name nodes that have some, or take share "
	 "away"},
	{"digraph { a }",
	 "m.dot:1: node a: neither an op nor costs: give it op=... (show [operators] lists them"
	 "), or forward=... and backward=... for a study"},
	{"digraph {\n" STUDY "\n a -> b;\n b -> c;\n c -> a }",
	 "m.dot:3: node a: a cycle: a -> b -> c -> a: take one of these edges away"},
	{"digraph {" STUDY " a -> a }",
	 "m.dot:1: node a: a cycle: a -> a: take one of these edges away"},
	{"digraph {" STUDY " a -> b;\n a -> b }",
	 "m.dot:1: node b: the edge a -> b is there twice: take one away"},
	{"digraph {" STUDY
	 "a0 -> a1 -> a2 -> a3 -> a4 -> a5 -> a6 -> a7 -> a8 -> a9 -> a0; z -> a3; a3 "
	 "-> q }",
	 "m.dot:1: node a0: a cycle: a0 -> a1 -> a2 -> a3 -> a4 -> a5 -> a6 -> a7 -> "
	 "... -> a0: take one of these edges away"},
	{"digraph {\n a [op=convolution] }",
	 "m.dot:2: node a: op: convolution is no operator: say one that show [operators] lists"},
	{"digraph {\n a [op=cost] }",
	 "m.dot:2: node a: op: cost is no operator: say one that show [operators] lists"},
	{"digraph {\n a [op=\"\"] }",
	 "m.dot:2: node a: neither an op nor costs: give it op=... (show [operators] lists them"
	 "), or forward=... and backward=... for a study"},
	{"digraph { a [op=relu,\n features=3] }",
	 "m.dot:2: node a: features is no attribute of op=relu: use op, " ALLOWED},
	{"digraph { a [op=input, columns=0,\n features=3] }",
	 "m.dot:2: node a: features is no attribute of op=input: use op, scale, "
	 "rows, columns, tensor, " ALLOWED},
	{"digraph { a [forward=1,\n colums=3] }",
	 "m.dot:2: node a: colums is no attribute of a study operator: use op, " ALLOWED},
	{"digraph {\n node [fore=1]\n a [op=linear] }",
	 "m.dot:2: node a: fore is no attribute of op=linear: use op, features, bias, " ALLOWED},
	{"digraph { a [op=linear] }",
	 "m.dot:1: node a: features is missing: say how many columns its output has, "
	 "features=128 (width is how wide Graphviz draws the box)"},
	{"digraph { a [op=linear, width=128] }",
	 "m.dot:1: node a: features is missing: say how many columns its output has, "
	 "features=128 (width is how wide Graphviz draws the box)"},
	{"digraph { a [op=linear, features=0] }",
	 "m.dot:1: node a: features: 0 is out of range: say 1 to 10000000"},
	{"digraph { fc1 [op=linear,\n features=\"12x\"] }",
	 "m.dot:2: node fc1: features: 12x is no whole number: say one from 1 to "
	 "10000000"},
	{"digraph { a [op=linear, features=-1] }",
	 "m.dot:1: node a: features: -1 is out of range: say 1 to 10000000"},
	{"digraph { a [op=linear, features=99999999999999999999] }",
	 "m.dot:1: node a: features: 99999999999999999999 is out of range: say 1 to "
	 "10000000"},
	{"digraph { x [op=input, columns=\"0:1000000\"]; y [op=input, columns=4]; l [op=mse]; "
	 "a [op=conv2d, features=1000000, kernel=10000, padding=9999, stride=10000, "
	 "image_height=1]; x -> a -> l; y -> l }",
	 "m.dot:1: node a: conv2d: more operations than can be counted: make kernel=10000 or "
	 "features=1000000 smaller"},
	{"digraph { a [op=max_pool, kernel=5000] }",
	 "m.dot:1: node a: kernel: 5000 is out of range: say 1 to 4096"},
	{"digraph { a [op=input] }",
	 "m.dot:1: node a: columns is missing: say which columns of the data it takes, "
	 "columns=\"0:16\" for the first 16"},
	{"digraph { a [op=input, columns=\"\"] }",
	 "m.dot:1: node a: columns: '' is no whole number: say one from 0 to "
	 "10000000"},
	{"digraph { a [forward=1, gang=0] }",
	 "m.dot:1: node a: gang: 0 is out of range: say 1 to 1048576"},
	{"digraph { a [forward=1, gang=\"3:3\"] }",
	 "m.dot:1: node a: gang: 3:3 is empty: the second number is the first one that is not "
	 "taken, "
	 "0:16 is 16 workers"},
	{"digraph { a [forward=1, gather=step] }",
	 "m.dot:1: node a: gather: 'step': give minibatch, or leave it out"},
	{"digraph { a [op=input, columns=\"4:4\"] }",
	 "m.dot:1: node a: columns: 4:4 is empty: the second number is the first one "
	 "that is not taken, 0:16 is 16 columns"},
	{"digraph { a [op=input, columns=\"4:2\"] }",
	 "m.dot:1: node a: columns: 4:2 is empty: the second number is the first one "
	 "that is not taken, 0:16 is 16 columns"},
	{"digraph { a [op=input, columns=\"0:4,,5\"] }",
	 "m.dot:1: node a: columns: '' is no whole number: say one from 0 to "
	 "10000000"},
	{"digraph { a [op=input, columns=\"0:99999999999\"] }",
	 "m.dot:1: node a: columns: 99999999999 is out of range: say 0 to 10000000"},
	{"digraph { a [op=input, columns=\"0:10000000,0:10000000\"] }",
	 "m.dot:1: node a: columns: 0:10000000 makes too many columns"},
	{"digraph { a [op=input, columns=\"0-4\"] }",
	 "m.dot:1: node a: columns: 0-4 is no whole number: say one from 0 to 10000000"},
	{"digraph { a [op=input, columns=0, scale=fast] }",
	 "m.dot:1: node a: scale: fast is no number: say one from -1e+09 to 1e+09"},
	{"digraph { a [forward=\"-1\"] }",
	 "m.dot:1: node a: forward: -1 is negative: say 0 or more"},
	{"digraph { a [forward=1,\n backward=-2] }",
	 "m.dot:2: node a: backward: -2 is negative: say 0 or more"},
	{"digraph { a [forward=\"12MB\"] }",
	 "m.dot:1: node a: forward: 12MB is no duration: say 1.2ms (ns, us, ms, s, min "
	 "or h) or a plain number of units"},
	{"digraph { a [stash=\"12ms\"] }",
	 "m.dot:1: node a: stash: 12ms is no size: say 12MB (B, kB, MB, GB, TB, KiB, "
	 "MiB, GiB or TiB) or a plain number of bytes"},
	{"digraph {\n a [forward=1];\n b [forward=\"2ms\"] }",
	 "m.dot:3: node b: forward: 2ms has a unit, and the duration in line 2 has "
	 "none: give all durations units, or none"},
	{"digraph {\n b [forward=\"2ms\"];\n a [forward=1] }",
	 "m.dot:3: node a: forward: 1 has no unit, and the duration in line 2 has one: "
	 "give all durations units, or none"},
	{"digraph { a [forward=1, stage=-1] }",
	 "m.dot:1: node a: stage: -1 is out of range: say 0 to 999999"},
	{"digraph { a [forward=1, stage=x] }",
	 "m.dot:1: node a: stage: x is no whole number: say one from 0 to 999999"},
	{"digraph { a [forward=1, stage=1000000] }",
	 "m.dot:1: node a: stage: 1000000 is out of range: say 0 to 999999"},
	{"digraph { a [forward=1, repeat=0] }",
	 "m.dot:1: node a: repeat: 0 is out of range: say 1 to 1000000"},
	{"digraph { a [forward=1, repeat=1000001] }",
	 "m.dot:1: node a: repeat: 1000001 is out of range: say 1 to 1000000"},
	{"digraph { " STUDY " a [repeat=1000000] b [repeat=2]; a -> b }",
	 "m.dot:1: node b: repeat: that makes more than 1000000 operators: repeat less"},
	{"digraph { " STUDY
	 " subgraph s { repeat=1000000;\n subgraph t { repeat=1000000; subgraph u { "
	 "repeat=1000000; a [repeat=1000000] } } } }",
	 "m.dot:2: node a: repeat: that makes more than 1000000 operators: repeat less"},
	{"digraph { repeat=3; a [forward=1] }",
	 "m.dot:1: repeat: the whole graph cannot be repeated: put what repeats in a "
	 "subgraph"},
	{"digraph { " STUDY " {\n repeat=3; a } }",
	 "m.dot:2: repeat: a subgraph that repeats needs a name: say subgraph NAME {"},
	{"digraph { " STUDY " subgraph s {\n repeat=x; a } }",
	 "m.dot:2: subgraph s: repeat: x is no whole number: say one from 1 to 1000000"},
	{"digraph { " STUDY " subgraph s {\n repeats=3; a } }",
	 "m.dot:2: repeats (did you mean repeat?) is no attribute of a graph or a subgraph: use "
	 "data, overhead, samples and profiled, on "
	 "the graph, repeat, frozen, split and length_exponent, on a subgraph, or what Graphviz "
	 "draws "
	 "with"},
	{"digraph { " STUDY " subgraph s {\n length_exponent=-1; a } }",
	 "m.dot:2: subgraph s: length_exponent: -1 is out of range: say 0 to 10"},
	{"digraph {\n length_exponent=many; " STUDY " a }",
	 "m.dot:2: length_exponent: many is no number: say one from 0 to 10"},
	{"digraph { samples=0; " STUDY " a }",
	 "m.dot:1: samples: 0 is out of range: say 1 to 1073741824"},
	{"digraph { profiled=\"cuda\"; " STUDY " a }",
	 "m.dot:1: profiled: 'cuda' is no device and precision: write \"cuda, bf16\" or \"cpu, "
	 "fp32\""},
	{"digraph { profiled=\"gpu, fp32\"; " STUDY " a }",
	 "m.dot:1: profiled: 'gpu, fp32' is no device and precision: write \"cuda, bf16\" or "
	 "\"cpu, fp32\""},
	{"digraph { profiled=\"cpu, fp16\"; " STUDY " a }",
	 "m.dot:1: profiled: no 'fp16': there are fp32, tf32 and bf16"},
	{"digraph { samples=x; " STUDY " a }",
	 "m.dot:1: samples: x is no whole number: say one from 1 to 1073741824"},
	{"digraph { " STUDY " subgraph s {\n repeat=2; a; b } }",
	 "m.dot:1: subgraph s: repeat needs one entry, and both a and b are: join them, "
	 "or move one out"},
	{"digraph { " STUDY "\n subgraph s { repeat=2; a -> b } x -> b }",
	 "m.dot:2: subgraph s: repeat needs one entry, and both a and b are: join them, "
	 "or move one out"},
	{"digraph { " STUDY "\n subgraph s { repeat=2; a -> b } a -> x; b -> x }",
	 "m.dot:2: subgraph s: repeat needs one exit, and both a and b are: join them, "
	 "or move one out"},
	{"digraph { " MODEL
	 " subgraph s { repeat=2;\n z [op=input, columns=0]; r [op=add] z -> r } x -> r "
	 "}",
	 "m.dot:2: node z: repeat: an input reads the data and cannot follow a copy of "
	 "itself: take it out of what repeats"},
	{"digraph { z [op=input, columns=0, repeat=2] }",
	 "m.dot:1: node z: repeat: an input reads the data and cannot follow a copy of "
	 "itself: take it out of what repeats"},
	{"digraph { " STUDY " \"a.1\"; a [repeat=2] }",
	 "m.dot:1: node a.1: two operators get this name, one of them from repeat or split: "
	 "rename one"},
	{"digraph { " STUDY " subgraph s {\n a -> b } subgraph t { b } }",
	 "m.dot:2: node b: is in two subgraphs, s and t: leave it in one (an edge "
	 "inside a subgraph puts both its ends there: write it outside)"},
	{"digraph { " STUDY " subgraph cluster_a { b } \n subgraph a { c } }",
	 "m.dot:2: subgraph a: another one is encoder a already (cluster_ does not "
	 "count): rename one"},
	{"digraph { l [op=mse, weight=\"-1\"] }",
	 "m.dot:1: node l: weight: -1 is out of range: say 0 to 1e+09"},
	{"digraph { l [op=mse,\n weight=\"3ms\"] }",
	 "m.dot:2: node l: weight: 3ms is no number: say one from 0 to 1e+09"},
	{"digraph { " STUDY " a -> b [byte=3] }",
	 "m.dot:1: byte (did you mean bytes?) is no attribute of an edge: use bytes, "
	 "gradient_bytes and gradient, or what Graphviz draws with"},
	{"digraph { " STUDY " edge [\nwidth=3] a -> b }",
	 "m.dot:2: width is no attribute of an edge: use bytes, gradient_bytes and gradient, or "
	 "what Graphviz draws with"},
	{"digraph { " STUDY "\n a -> b [\nbytes=\"3x\"] }",
	 "m.dot:3: edge a -> b: bytes: 3x is no size: say 12MB (B, kB, MB, GB, TB, KiB, MiB, GiB "
	 "or TiB) or a plain "
	 "number of bytes"},
	{"digraph { " STUDY "\n a -> b [gradient_bytes=\"-1\"] }",
	 "m.dot:2: edge a -> b: gradient_bytes: -1 is negative: say 0 or more"},
	{"digraph { " STUDY "\n edge [gradient=0] subgraph s { a -> b } }",
	 "m.dot:2: edge a -> b: gradient: '0': give true or false"},
	{"digraph { " STUDY "\n a -> b [gradient_bytes=1, gradient=false] }",
	 "m.dot:2: edge a -> b: gradient: gradient=false says that it has none: take one of them "
	 "away"},
	{"digraph { " STUDY "\n a [backward=2]; a -> b [gradient=false] }",
	 "m.dot:2: node a: it is trained, and no gradient reaches it, since edges after it say "
	 "gradient=false: make it frozen=true, or let a gradient through"},
	{"digraph { node [forward=1, parameters=4]\n a -> b -> c; b -> d [gradient=false]; edge "
	 "[gradient=false] c -> e; d -> e }",
	 "m.dot:2: node d: it is trained, and no gradient reaches it, since edges after it say "
	 "gradient=false: make it frozen=true, or let a gradient through"},
	{"digraph { " STUDY " a; subgraph s { data=\"x\"; a } }",
	 "m.dot:1: data: a model has one file of data: say so outside the subgraphs"},
	{"digraph { " STUDY " \"a\nb\" }",
	 "m.dot:1: a node's name is empty or holds a line break or a control character"},
	{"digraph { " STUDY " \"\" }",
	 "m.dot:1: a node's name is empty or holds a line break or a control character"},
	{"digraph { " STUDY " subgraph \"x\ty\" { a } }",
	 "m.dot: a subgraph's name holds a line break or a control character"},
	{"digraph { " MODEL "\n c [forward=1]; c -> x }",
	 "m.dot:2: node c: has costs only, and other operators compute: give every "
	 "operator an op, or none"},
	{"digraph { c [forward=1];\n " MODEL " }",
	 "m.dot:2: node x: computes, and other operators have costs only: give every "
	 "operator an op, or none"},
	{"digraph { " MODEL " x -> y }", "m.dot:1: node y: " UNREAD},
	{"digraph { " MODEL " l [op=mse] }", "m.dot:1: node x: " UNREAD},
	{"digraph { " MODEL "\n r [op=relu]; x -> r; y -> r; r -> l; y -> l; l [op=mse] }",
	 "m.dot:2: node r: relu reads 1 operator, and there are 2: give it 1 edge (add "
	 "or concat join several)"},
	{"digraph { " MODEL " r [op=add]; x -> r; r -> l; y -> l; l [op=mse] }",
	 "m.dot:1: node r: add reads 2 operators or more, and there is 1: give it more "
	 "edges"},
	{"digraph { " MODEL " r [op=add]; x -> r; y -> r; r -> l; y -> l; l [op=mse] }",
	 "m.dot:1: node r: add reads equal widths, and x has 4 columns and y 1: make "
	 "them equal"},
	{"digraph { " MODEL " l [op=mse]; x -> l; y -> l }",
	 "m.dot:1: node l: mse reads equal widths, and x has 4 columns and y 1: make "
	 "them equal"},
	{"digraph { " MODEL " l [op=mse]; x -> l }", "m.dot:1: node y: " UNREAD},
	{"digraph { " MODEL " y -> l [color=red]; x -> l; l [op=softmax_cross_entropy] }",
	 "m.dot:1: node l: softmax_cross_entropy reads 2 columns of scores or more and "
	 "1 column of class numbers, in this order, and y has 1 and x 4"},
	{"digraph { " MODEL " z [op=input, columns=3]; x -> l; y -> l; z -> l; l "
	 "[op=softmax_cross_entropy] }",
	 "m.dot:1: node l: softmax_cross_entropy reads 2 operators, first the scores "
	 "and then the class, and there are 3: give it 2 edges"},
	{"digraph { " MODEL " z [op=input, columns=3]; z -> l; y -> l; x -> l2; y -> l2; l "
	 "[op=softmax_cross_entropy]; l2 [op=softmax_cross_entropy]; }",
	 "m.dot:1: node l: softmax_cross_entropy reads 2 columns of scores or more and "
	 "1 column of class numbers, in this order, and z has 1 and y 1"},
	{"digraph { " MODEL " l [op=softmax_cross_entropy]; x -> l; y -> l; r [op=relu]; l -> r }",
	 "m.dot:1: node l: a loss ends the model: take the edges out of it away"},
	{"digraph { " MODEL
	 " l [op=softmax_cross_entropy]; x -> l; y -> l;\n r [op=relu]; x -> r }",
	 "m.dot:2: node r: " UNREAD},
	{"digraph { " MODEL " r [op=relu]; x -> r; y -> r2; r2 [op=relu] }",
	 "m.dot:1: node r: " UNREAD},
	{"digraph { " MODEL
	 " f [op=linear, features=3, repeat=2]; g [op=linear, features=4]; x -> f -> l; "
	 "g -> l; x -> g; l [op=mse] }",
	 "m.dot:1: node y: " UNREAD},
	{"digraph { a [forward=\"1000000h\", repeat=1000] }",
	 "m.dot:1: node a.0: the costs of the graph add up to more than 2^60 up to "
	 "here: make it smaller"},
	{"node1 -- a -- forward_compute_time=x, backward_compute_time=0.000, "
	 "activation_size=9.0, parameter_size=0.000\n",
	 "m.dot:1: node node1: forward_compute_time: x is no number of milliseconds"},
	{"node1 -- a -- forward_compute_time=1, activation_size=9.0, "
	 "parameter_size=0.000\n",
	 "m.dot:1: node node1: backward_compute_time is missing: say "
	 "backward_compute_time= and a number"},
	{"node1 -- a -- forward_compute_time=1, backward_compute_time=-1, "
	 "activation_size=9.0, parameter_size=0.000\n",
	 "m.dot:1: node node1: backward_compute_time: -1ms is negative: say 0 or more"},
	{"node1 -- a -- forward_compute_time=1, backward_compute_time=1, "
	 "activation_size=[9.0; x], parameter_size=0.000\n",
	 "m.dot:1: node node1: activation_size:  x is no size: say 12MB (B, kB, MB, GB, "
	 "TB, KiB, MiB, GiB or TiB) or a plain number of bytes"},
	{"node1 -- a" COST "\nnode1 -- a" COST "\n",
	 "m.dot:2: an operator of this name is there already: rename one"},
	{"node1 -- a" COST "\n\tnode1 -- node2\n", "m.dot:2: no operator is called node2"},
	{"node1 -- a" COST "\n\tnode1 > node2\n", "m.dot:2: no edge: say NAME -- NAME"},
	{"node1 -- a" COST "\nnode2 -- b\n",
	 "m.dot:2: no operator: say NAME -- DESCRIPTION -- forward_compute_time=..., ..."},
	{"node\x15 -- a" COST "\n",
	 "m.dot:1: a name may not be empty or hold blanks, control characters, \" or \\"},
	{"node1 -- a" COST "\n\tnode1 -- node1\nnode2 -- b\n",
	 "m.dot:3: an operator after the edges: move it up, or indent it if it is an "
	 "edge"},
	{"node1 -- a" COST " -- stage_id=x\n",
	 "m.dot:1: node node1: x is no whole number: say one from 0 to 999999"},
};

START_TEST(what_is_refused_names_the_place_and_the_cure)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	int code = orr_graph_parse(&g, "m.dot", refused[_i].text, &err);

	ck_assert_msg(code == ORR_E_INPUT, "%s: %d", refused[_i].text, code);
	ck_assert_ptr_null(g);
	ck_assert_msg(strcmp(err.msg, refused[_i].message) == 0, "%s:\n%s\nand not\n%s",
		      refused[_i].text, err.msg, refused[_i].message);
}
END_TEST

static const struct {
	const char *source, *message;
} sources[] = {
	{"chain:", "chain:: '' is no whole number: say one from 1 to 1000000"},
	{"chain:0", "chain:0: 0 is out of range: say 1 to 1000000"},
	{"chain:-3", "chain:-3: -3 is out of range: say 1 to 1000000"},
	{"chain:x", "chain:x: x is no whole number: say one from 1 to 1000000"},
	{"chain:1.5", "chain:1.5: 1.5 is no whole number: say one from 1 to 1000000"},
	{"chain:99999999999", "chain:99999999999: 99999999999 is out of range: say 1 to 1000000"},
	{"towers:3", "towers:3: no trunk: say towers:A,B,.../T, such as towers:3,3/2"},
	{"towers:3,3/0", "towers:3,3/0: 0 is out of range: say 1 to 1000000"},
	{"towers:3,,3/1", "towers:3,,3/1: '' is no whole number: say one from 1 to 1000000"},
	{"towers:3,3/1/1", "towers:3,3/1/1: 1/1 is no whole number: say one from 1 to 1000000"},
	{"towers:600000,600000/1", "towers:600000,600000/1: more than 1000000 operators"},
	{"no/such.dot",
	 "no/such.dot: cannot open it: No such file or directory: name a DOT file, a model in ONNX "
	 "(.onnx), a "
	 "PipeDream profile, or a study such as chain:8 or towers:3,3/2"},
	{".", ".: a directory: name a file in it"},
	{"/dev/null",
	 "/dev/null: no file but a FIFO or a device, which may never end: write it to a file, and "
	 "name that"},
};

START_TEST(sources_that_are_no_graph_are_refused)
{
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	ck_assert_int_eq(orr_graph_read(&g, sources[_i].source, &err), ORR_E_INPUT);
	ck_assert_str_eq(err.msg, sources[_i].message);
	ck_assert_ptr_null(g);
}
END_TEST

START_TEST(a_binary_file_is_refused)
{
	char path[] = "graph-XXXXXX", message[256];
	int file = mkstemp(path);
	struct orr_graph *g = NULL;
	struct orr_error err = {""};
	int code;

	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(write(file, "digraph {\0}", 11), 11);
	close(file);
	code = orr_graph_read(&g, path, &err);
	unlink(path);
	ck_assert_int_eq(code, ORR_E_INPUT);
	(void)snprintf(message, sizeof(message),
		       "%s: a binary file: name a DOT file, a model in ONNX (.onnx), a PipeDream "
		       "profile, or a study such as chain:8 or towers:3,3/2",
		       path);
	ck_assert_str_eq(err.msg, message);
}
END_TEST

START_TEST(messages_survive_names_without_end)
{
	static char text[20000], name[5000];
	struct orr_graph *g = NULL;
	struct orr_error err = {""};

	memset(name, 'a', sizeof(name) - 1);
	(void)snprintf(text, sizeof(text), "digraph { %s [op=%s] }", name, name);
	ck_assert_int_eq(orr_graph_parse(&g, name, text, &err), ORR_E_INPUT);
	ck_assert_int_lt((int)strlen(err.msg), (int)sizeof(err.msg));
	(void)snprintf(text, sizeof(text), "digraph { %s -> %sb [%s=1] }", name, name, name);
	ck_assert_int_eq(orr_graph_parse(&g, name, text, &err), ORR_E_INPUT);
}
END_TEST

/* Damaged models: whatever happens to the text, the answer is a graph or one line, and nothing is
 * printed. The sanitizers watch. */
START_TEST(no_damage_to_a_model_does_more_than_a_message)
{
	static const char *const models[] = {
		"strict digraph m { data=\"d.csv\" /* c */ node [stage=0]\n# line\n"
		"a [op=input, columns=\"0:3,5\", scale=0.5] b [op=input, columns=1]\n"
		"subgraph cluster_e { repeat=2; f [op=linear, features=4, repeat=2, "
		"label=<b<i>i</i>>]; r [op=relu] "
		"f -> r } a:n -> f; r -> {l l2}; b -> {l l2} l [op=softmax_cross_entropy] l2 "
		"[op=mse] }",
		"digraph { node [forward=\"1.5ms\", backward=\"2us\", stash=\"3MB\"]; subgraph s { "
		"repeat=3; a -> \"b\" + "
		"\"c\" } // x\n {rank=same; d; e} a -> d [color=red]; d -> e }",
		"node1 -- In -- forward_compute_time=1.0, backward_compute_time=1, "
		"activation_size=[9.0; 1], "
		"parameter_size=0.0 -- stage_id=1\nnode2 -- x" COST "\n\tnode1 -- node2\n",
	};
	static const char bytes[] = "{}[]<>\"\\/*#=;:,.+-> \n\t0159xe\x01\xff";
	char text[1024];
	uint64_t random = 88172645463325252u;
	int i, k, refusals = 0, before = dup(STDERR_FILENO);
	FILE *printed = tmpfile();

	ck_assert_ptr_nonnull(printed);
	fflush(stderr);
	ck_assert_int_ge(dup2(fileno(printed), STDERR_FILENO), 0);
	for (i = 0; i < 6000; i++) {
		struct orr_graph *g = NULL;
		struct orr_error err = {""};
		size_t length;
		int code;

		(void)snprintf(text, sizeof(text), "%s", models[i % N_OF(models)]);
		length = strlen(text);
		for (k = 0; k <= i % 4; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			if (random % 5 == 0) /* take a piece away */
				memmove(text + random / 8 % length,
					text + length - (length - random / 8 % length) / 2,
					(length - random / 8 % length) / 2 + 1);
			else
				text[random / 8 % length] =
					bytes[random / 65536 % (sizeof(bytes) - 1)];
			length = strlen(text);
			if (length == 0)
				break;
		}
		code = orr_graph_parse(&g, "m.dot", text, &err);
		ck_assert_msg(code == 0 || code == ORR_E_INPUT, "%s", text);
		ck_assert_msg((code == 0) == (g != NULL), "%s", text);
		ck_assert_msg(code == 0 || (*err.msg && !strchr(err.msg, '\n')), "%s: %s", text,
			      err.msg);
		refusals += code != 0;
		orr_graph_destroy(g);
	}
	fflush(stderr);
	ck_assert_int_ge(dup2(before, STDERR_FILENO), 0);
	close(before);
	ck_assert_int_eq(fseek(printed, 0, SEEK_END), 0);
	ck_assert_int_eq(ftell(printed), 0);
	fclose(printed);
	ck_assert_int_gt(refusals, 1000);
	ck_assert_int_lt(refusals, 6000);
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(what_is_refused_names_the_place_and_the_cure, N_OF(refused)),
		EACH(sources_that_are_no_graph_are_refused, N_OF(sources)),
		ONCE(a_binary_file_is_refused),
		ONCE(messages_survive_names_without_end),
		ONCE(no_damage_to_a_model_does_more_than_a_message),
	};

	return suite_run("graph_errors", tests, N_OF(tests));
}

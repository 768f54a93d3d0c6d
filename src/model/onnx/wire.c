/* Bytes as a message. protobuf-c recurses as deep as a file nests and takes memory for every empty
 * message, so the depth is looked at before, and the memory is bounded by the size of the file. */
#include "onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/input.h"

#define MOST_DEPTH 32
#define BYTES_A_BYTE 128 /* of memory, for one of the file */
#define MOST_BYTES (INT64_C(1) << 31)

/* ---- depth ---- */

struct bytes {
	const uint8_t *at, *end;
};

static bool read_varint(struct bytes *b, uint64_t *value)
{
	*value = 0;
	for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
		uint8_t byte = *b->at++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static const ProtobufCMessageDescriptor *message_of(const ProtobufCMessageDescriptor *d,
						    uint64_t tag)
{
	const ProtobufCFieldDescriptor *field =
		tag > UINT32_MAX ? NULL : protobuf_c_message_descriptor_get_field(d, (unsigned)tag);

	return field && field->type == PROTOBUF_C_TYPE_MESSAGE
		       ? (const ProtobufCMessageDescriptor *)field->descriptor
		       : NULL;
}

static bool skip(struct bytes *b, uint64_t n)
{
	if (n > (uint64_t)(b->end - b->at))
		return false;
	b->at += n;
	return true;
}

/* Are the fields whole, and nest no deeper than they may? */
static bool is_sound(const ProtobufCMessageDescriptor *d, struct bytes b, int depth)
{
	uint64_t key, value;

	while (b.at < b.end) {
		const ProtobufCMessageDescriptor *inner;

		if (!read_varint(&b, &key))
			return false;
		inner = message_of(d, key >> 3);
		switch (key & 7) {
		case 0:
			if (!read_varint(&b, &value))
				return false;
			break;
		case 1:
			if (!skip(&b, 8))
				return false;
			break;
		case 2:
			if (!read_varint(&b, &value) || value > (uint64_t)(b.end - b.at))
				return false;
			if (inner &&
			    (depth == MOST_DEPTH ||
			     !is_sound(inner, (struct bytes){b.at, b.at + value}, depth + 1)))
				return false;
			b.at += value;
			break;
		case 5:
			if (!skip(&b, 4))
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

/* ---- memory ---- */

struct budget {
	size_t left;
	bool spent;
};

static void *take(void *budget, size_t size)
{
	struct budget *b = budget;

	if (size > b->left) {
		b->spent = true;
		return NULL;
	}
	b->left -= size;
	return malloc(size);
}

static void give_back(void *budget, void *at)
{
	(void)budget;
	free(at);
}

/* ---- files beside it ---- */

const char *orr_onnx_external(const Onnx__TensorProto *t, const char *key)
{
	for (size_t i = 0; i < t->n_external_data; i++)
		if (t->external_data[i]->key && t->external_data[i]->value &&
		    !strcmp(t->external_data[i]->key, key))
			return t->external_data[i]->value;
	return NULL;
}

bool orr_onnx_beside(char **folder, char **path, const char *model, const char *location)
{
	const char *slash = strrchr(model, '/');

	*path = NULL;
	if (!(*folder = slash ? strndup(model, (size_t)(slash - model) + 1) : strdup("./")))
		return false;
	if (asprintf(path, "%s%s", *location == '/' ? "" : *folder, location) < 0)
		*path = NULL;
	return *path;
}

/* Each is seen, as a file that is read is. */
static int name_beside(const Onnx__ModelProto *model, const char *path, struct orr_error *err)
{
	const char *last = "";
	int code = 0;

	for (size_t i = 0; i < model->graph->n_initializer && !code; i++) {
		const char *location = orr_onnx_external(model->graph->initializer[i], "location");
		char *folder, *beside;

		if (!location || !strcmp(location, last))
			continue;
		last = location;
		code = orr_onnx_beside(&folder, &beside, path, location)
			       ? orr_input_name(beside, err)
			       : orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", path);
		free(folder);
		free(beside);
	}
	return code;
}

int orr_onnx_unpack(Onnx__ModelProto **out, const char *name, const void *bytes, size_t n,
		    struct orr_error *err)
{
	struct budget budget = {.left = (n < (size_t)MOST_BYTES ? n : 0) * BYTES_A_BYTE + 65536};
	ProtobufCAllocator allocator = {take, give_back, &budget};
	const uint8_t *at = bytes;
	Onnx__ModelProto *model = NULL;
	int code;

	if (n && is_sound(&onnx__model_proto__descriptor, (struct bytes){at, at + n}, 0))
		model = onnx__model_proto__unpack(&allocator, n, at);
	if (!model)
		return orr_fail(err, budget.spent ? ORR_E_NOMEM : ORR_E_INPUT,
				budget.spent
					? "%s: no memory for its messages"
					: "%s: no ONNX model, or a damaged one: export it again",
				name);
	if (!model->graph || !model->graph->n_node) {
		orr_onnx_free(model);
		return orr_fail(err, ORR_E_INPUT, "%s: no model in it: ONNX without nodes", name);
	}
	if ((code = name_beside(model, name, err))) {
		orr_onnx_free(model);
		return code;
	}
	*out = model;
	return 0;
}

void orr_onnx_free(Onnx__ModelProto *model)
{
	if (model)
		onnx__model_proto__free_unpacked(model, NULL);
}

/* Bytes as a message. protobuf-c recurses as deep as a file nests and takes memory for every empty
 * message, so the depth is looked at before, and the memory is bounded by the size of the file. */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

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

int orr_onnx_unpack(Onnx__ModelProto **out, const char *name, const void *bytes, size_t n,
		    struct orr_error *err)
{
	struct budget budget = {.left = (n < (size_t)MOST_BYTES ? n : 0) * BYTES_A_BYTE + 65536};
	ProtobufCAllocator allocator = {take, give_back, &budget};
	const uint8_t *at = bytes;
	Onnx__ModelProto *model = NULL;

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
	*out = model;
	return 0;
}

void orr_onnx_free(Onnx__ModelProto *model)
{
	if (model)
		onnx__model_proto__free_unpacked(model, NULL);
}

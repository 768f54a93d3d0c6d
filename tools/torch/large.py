"""Transformers of a size that fills the cores: 8 layers of 512 columns, 256 tokens a sample. A GPT, and a CLIP of two
such towers; their data is drawn, since only the time of a step is asked."""

import sys
from pathlib import Path

import torch
from orrery_torch import command
from orrery_torch.tensors import save_safetensors

sys.path.append(str(command.ROOT / "tools/tables"))
from tensor import block

LAYERS, WIDTH, TOKENS, VOCABULARY = 8, 512, 256, 8192
HEADS = 8
PATCH, CHANNELS = 16, 3  # 16 x 16 patches of an image of 256 x 256
ROWS = 64
NAMES = (f"gpt_{LAYERS}x{WIDTH}", f"clip_{LAYERS}x{WIDTH}")


def tower(name: str, causal: bool) -> str:
    """From the operator NAME_rows to NAME_norm."""
    text, before = f"	{name}_places [op=positions];\n	{name}_rows -> {name}_places;\n", f"{name}_places"
    for i in range(LAYERS):
        more, before = block(f"{name}{i}", before, WIDTH, HEADS, causal)
        text += more
    return text + f"	{name}_norm [op=layernorm];\n	{before} -> {name}_norm;\n"


def tokens(name: str) -> str:
    return f"""
	{name}_ids [op=input, tensor="tokens", columns="0:{TOKENS}", rows={TOKENS}];
	{name}_rows [op=embedding, vocabulary={VOCABULARY}, features={WIDTH}];
	{name}_ids -> {name}_rows;
"""


def gpt() -> str:
    return f"""{tokens("text")}{tower("text", True)}
	scores [op=linear, features={VOCABULARY}, bias=false];
	next [op=input, tensor="tokens", columns="1:{TOKENS + 1}", rows={TOKENS}];
	loss [op=softmax_cross_entropy];
	text_norm -> scores -> loss;
	next -> loss;
"""


def clip() -> str:
    pixels = TOKENS * PATCH * PATCH
    ends = "".join(
        f"	{name}_project [op=linear, features={WIDTH}, bias=false];\n	{name} [op=normalise];\n"
        f"	{name}_norm -> {name}_pooled -> {name}_project -> {name} -> pairs;\n"
        for name in ("image", "text")
    )
    return f"""
	image_pixels [op=input, tensor="pixels", columns="0:{pixels * CHANNELS}", rows={pixels}];
	image_patches [op=patches, size={PATCH}];
	image_rows [op=linear, features={WIDTH}];
	image_pixels -> image_patches -> image_rows;
{tower("image", False)}{tokens("text")}{tower("text", True)}
	image_pooled [op=mean];
	text_pooled [op=last];
	pairs [op=contrastive, gather=minibatch];
{ends}"""


def write(folder: Path) -> list[Path]:
    """The two graphs and what they read, drawn by the same seed each time."""
    generator = torch.Generator().manual_seed(1)
    pixels = TOKENS * PATCH * PATCH * CHANNELS
    data = {
        "tokens": torch.randint(
            VOCABULARY, (ROWS, TOKENS + 1), generator=generator, dtype=torch.int32
        ),
        "pixels": torch.rand(ROWS, pixels, generator=generator),
    }
    save_safetensors(folder / "large.safetensors", data)
    written = []
    for name, body in zip(NAMES, (gpt(), clip())):
        path = folder / f"{name}.dot"
        path.write_text(f'digraph {name} {{\n	data="large.safetensors";\n{body}}}\n')
        written.append(path)
    return written

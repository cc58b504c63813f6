"""Sizes of blocks and rows, which predictions of memory read without torch."""

LONGEST_TREE = 2
"""Times the hidden size: how long rows with masks between their responses may be. Attention costs length^2 in them."""
CPU_BLOCK = 2**21
GPU_BLOCK = 2**27
"""Logits calculated at a time. A CPU's should stay in its cache, which makes this faster than all at once; a GPU's cost
0.5 GiB, and at 2**24 the casts and additions of each block take as long as its products (benchmarks/gpu)."""

"""The elements that a GEMM reads from global memory, as a function of the block's tile of C.

Each step along K loads a column of tile_m elements of A and a row of tile_n elements of B, and
computes tile_m x tile_n multiply-adds. The naive kernel has a tile of 1 x 1. These are the elements
that the kernel requests; caches may serve some of them.
"""

from __future__ import annotations


def gemm_reads(m: int, n: int, k: int, tile_m: int = 1, tile_n: int | None = None) -> int:
    """Return how many elements of A and B a GEMM of m x n x k reads.

    Each of the ceil(n / tile_n) blocks of a row reads A's rows again, each of the ceil(m / tile_m)
    blocks of a column reads B's columns again. That is 2 m n k elements for tiles of 1, and
    m k + k n only if one tile covers all of C. A kernel that keeps the whole K panel in shared
    memory reads as much as one that moves tiles along K.

    Args:
        m, n, k: the sizes of the product, 0 or more.
        tile_m, tile_n: the tile of C; if tile_n is None, it equals tile_m.

    Raises ValueError for a negative size or a tile below 1.
    """
    for name, size in (("m", m), ("n", n), ("k", k)):
        if size < 0:
            raise ValueError(f"smem.analysis.gemm_reads: {name} is {size}, expected 0 or more")
    tile_m, tile_n = _tile("gemm_reads", tile_m, tile_n)
    return k * (m * -(-n // tile_n) + n * -(-m // tile_m))


def gemm_intensity(tile_m: int = 1, tile_n: int | None = None, *, element_bytes: int = 4) -> float:
    """Return the FLOP per byte read from global memory: tile / element_bytes for square tiles.

    In float32 the naive kernel has 2 FLOP per 8 bytes, 0.25; tiles of 16 have 4, tiles of 32 have
    8. The writes of C and partial tiles at the edges are not counted.

    Args:
        tile_m, tile_n: the tile of C; if tile_n is None, it equals tile_m.
        element_bytes: the size of an element of A and B.

    Raises ValueError for a tile or an element below 1.
    """
    tile_m, tile_n = _tile("gemm_intensity", tile_m, tile_n)
    if element_bytes < 1:
        raise ValueError(
            f"smem.analysis.gemm_intensity: element_bytes is {element_bytes}, expected 1 or more"
        )
    return 2 * tile_m * tile_n / ((tile_m + tile_n) * element_bytes)


def _tile(function: str, tile_m: int, tile_n: int | None) -> tuple[int, int]:
    tile = tile_m, tile_m if tile_n is None else tile_n
    for name, size in zip(("tile_m", "tile_n"), tile, strict=True):
        if size < 1:
            raise ValueError(f"smem.analysis.{function}: {name} is {size}, expected 1 or more")
    return tile

"""Bank conflicts: the number of passes through shared memory that one access of a warp needs.

Shared memory has 32 banks of 4 bytes, bank = (byte address / 4) mod 32. In one pass (a wavefront)
each bank serves one word, to any number of lanes; lanes that access different words of one bank are
served one after the other. (CUDA C++ programming guide, "Shared Memory" of compute capability 5.x,
which all later ones follow.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

BANKS = 32
WORD = 4  # bytes
LANES = 32  # per warp
WIDTHS = (1, 2, 4, 8, 16)  # bytes that an instruction moves per lane


@dataclass(frozen=True)
class Banks:
    """What :func:`banks` found.

    ``wavefronts`` is the number of passes needed, ``ideal`` the lowest number for that many lanes
    of that width. ``ways`` is the highest number of words in one bank that lanes served together
    access: 1 means no conflicts, 32 is the worst. ``banks`` has the bank of each lane's first word,
    None for an inactive lane.
    """

    wavefronts: int
    ideal: int
    ways: int
    banks: tuple[int | None, ...]

    @property
    def conflicts(self) -> int:
        """The passes that a layout without conflicts would save."""
        return self.wavefronts - self.ideal


def banks(addresses: Iterable[int | None], width: int = WORD, *, store: bool = False) -> Banks:
    """Return the cost of one load or store of a warp.

    The rule gives ncu's wavefronts and bank conflicts on an H200 for 460 patterns of 1 to 16 bytes,
    regular and random, with all lanes or some, as loads and as stores.

    >>> banks(tile_addresses(lambda lane: (lane, 0), pitch=32)).ways  # down a column
    32
    >>> banks(tile_addresses(lambda lane: (lane, 0), pitch=33)).ways  # padded
    1

    Args:
        addresses: the byte offset in shared memory of each lane's access, None for a lane that
            is inactive; up to 32.
        width: the bytes of each lane: 1, 2, 4, 8 or 16.
        store: whether it is a store. Only loads serve lanes in larger groups if pairs of them
            access the same word.

    Raises ValueError for another width, more than 32 lanes, or an address that is negative or not
    a multiple of ``width``.
    """
    lanes = tuple(addresses)
    if width not in WIDTHS:
        expected = ", ".join(map(str, WIDTHS))
        raise ValueError(f"smem.analysis.banks: width is {width}, expected one of {expected}")
    if len(lanes) > LANES:
        raise ValueError(
            f"smem.analysis.banks: addresses has {len(lanes)} lanes, expected up to {LANES}"
        )
    for lane, address in enumerate(lanes):
        if address is not None and (address < 0 or address % width):
            raise ValueError(
                f"smem.analysis.banks: addresses[{lane}] is {address}, "
                f"expected a multiple of {width} from 0 on"
            )

    ways = [_ways(group, width) for group in _served_together(lanes, width, store)]
    return Banks(
        wavefronts=sum(ways),
        ideal=len(ways),
        ways=max(ways, default=0),
        banks=tuple(None if at is None else at // WORD % BANKS for at in lanes),
    )


def _served_together(lanes: Sequence[int | None], width: int, store: bool) -> Iterator[list[int]]:
    """The addresses of the lanes that can share a pass: all, or as many as 128 bytes serve.

    So a half warp is served at once if a lane moves 8 bytes, a quarter warp if it moves 16. A load
    is served in groups twice as large if all pairs of active lanes n and n ^ 1, or all pairs n and
    n ^ 2, access the same address.
    """
    size = BANKS * WORD // max(width, WORD)
    if size < LANES and not store and (_agree(lanes, 1) or _agree(lanes, 2)):
        size *= 2
    for start in range(0, len(lanes), size):
        active = [at for at in lanes[start : start + size] if at is not None]
        if active:
            yield active


def _agree(lanes: Sequence[int | None], distance: int) -> bool:
    """Whether all pairs of active lanes n and n ^ distance access the same address."""
    pairs = (
        (at, lanes[lane ^ distance])
        for lane, at in enumerate(lanes)
        if lane ^ distance < len(lanes)
    )
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _ways(addresses: list[int], width: int) -> int:
    """The highest number of different words in one bank that ``addresses`` access."""
    words = {word for at in addresses for word in range(at // WORD, (at + width - 1) // WORD + 1)}
    return max(Counter(word % BANKS for word in words).values())


def tile_addresses(
    element: Callable[[int], tuple[int, int] | None],
    pitch: int,
    element_bytes: int = WORD,
    lanes: int = LANES,
) -> list[int | None]:
    """Return the byte offsets, for :func:`banks`, of elements of a matrix in shared memory.

    Args:
        element: returns the (row, column) that a lane accesses, None for an inactive lane:
            ``lambda lane: (0, lane)`` is along a row, ``lambda lane: (lane, 0)`` down a column.
        pitch: elements from one row to the next, padding included: 33 for ``float tile[32][33]``.
        element_bytes: the size of an element.
        lanes: the number of lanes, from lane 0 on.
    """
    places = map(element, range(lanes))
    return [None if at is None else (at[0] * pitch + at[1]) * element_bytes for at in places]

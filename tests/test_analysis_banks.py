"""Bank conflicts: bank = (byte address / 4) mod 32, same word free, different words in turn."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_smem_gemm.analysis import Banks, banks, tile_addresses

WIDTHS = (1, 2, 4, 8, 16)
Element = Callable[[int], tuple[int, int] | None]


def along_a_row(lane: int) -> tuple[int, int]:
    return 0, lane


def down_a_column(lane: int) -> tuple[int, int]:
    return lane, 0


def test_a_bank_is_the_word_modulo_32() -> None:
    found = banks([0, 4, 124, 128, None, 4096 + 8])
    assert found.banks == (0, 1, 31, 0, None, 2)
    assert banks([0, 2, 4, 6], width=2).banks == (0, 0, 1, 1)
    assert banks([16, 32], width=16).banks == (4, 8)


WARPS = [
    # what the lanes access, pitch, element bytes, width: wavefronts, ideal, ways
    pytest.param(along_a_row, 32, 4, 4, 1, 1, 1, id="row"),
    pytest.param(down_a_column, 32, 4, 4, 32, 1, 32, id="column"),
    pytest.param(down_a_column, 33, 4, 4, 1, 1, 1, id="column, padded"),
    pytest.param(lambda lane: (0, 0), 32, 4, 4, 1, 1, 1, id="broadcast"),
    pytest.param(lambda lane: (0, lane // 8), 32, 4, 4, 1, 1, 1, id="four words, broadcast"),
    pytest.param(lambda lane: (lane % 2, 0), 32, 4, 4, 2, 1, 2, id="two words of a bank"),
    pytest.param(lambda lane: (0, 2 * lane), 64, 4, 4, 2, 1, 2, id="stride 2"),
    pytest.param(lambda lane: (0, 3 * lane), 96, 4, 4, 1, 1, 1, id="stride 3"),
    pytest.param(lambda lane: (0, 4 * lane), 128, 4, 4, 4, 1, 4, id="stride 4"),
    pytest.param(lambda lane: (0, 31 - lane), 32, 4, 4, 1, 1, 1, id="row, backwards"),
    pytest.param(lambda lane: (lane, lane), 32, 4, 4, 1, 1, 1, id="diagonal"),
    pytest.param(lambda lane: (lane // 16, lane % 16), 16, 4, 4, 1, 1, 1, id="tile of 16"),
    pytest.param(lambda lane: (lane, 0) if lane < 4 else None, 32, 4, 4, 4, 1, 4, id="4 lanes"),
    # Two halves in one word share it; two rows of 32 halves fill the banks once.
    pytest.param(along_a_row, 32, 2, 2, 1, 1, 1, id="row of halves"),
    pytest.param(down_a_column, 32, 2, 2, 16, 1, 16, id="column of halves"),
    pytest.param(down_a_column, 34, 2, 2, 1, 1, 1, id="column of halves, padded by a word"),
    pytest.param(along_a_row, 32, 1, 1, 1, 1, 1, id="row of bytes"),
    # Doubles: half a warp at a time.
    pytest.param(along_a_row, 32, 8, 8, 2, 2, 1, id="row of doubles"),
    pytest.param(down_a_column, 32, 8, 8, 32, 2, 16, id="column of doubles"),
    pytest.param(down_a_column, 33, 8, 8, 2, 2, 1, id="column of doubles, padded"),
    # float4: a quarter at a time.
    pytest.param(lambda lane: (0, 4 * lane), 128, 4, 16, 4, 4, 1, id="row of float4"),
    pytest.param(down_a_column, 32, 4, 16, 32, 4, 8, id="column of float4"),
    pytest.param(down_a_column, 36, 4, 16, 4, 4, 1, id="column of float4, padded by one"),
    # Loads by lanes that agree in pairs are served by groups twice as large.
    pytest.param(lambda lane: (0, 0), 32, 8, 8, 1, 1, 1, id="broadcast of a double"),
    pytest.param(lambda lane: (0, 0), 32, 4, 16, 2, 2, 1, id="broadcast of a float4"),
    pytest.param(lambda lane: (0, lane // 2), 32, 8, 8, 1, 1, 1, id="doubles, in pairs"),
    pytest.param(lambda lane: (0, lane % 2), 32, 8, 8, 1, 1, 1, id="two doubles, every other lane"),
    pytest.param(
        lambda lane: (0, lane % 4), 32, 8, 8, 2, 2, 1, id="four doubles in turn: no pairs"
    ),
    pytest.param(lambda lane: (lane // 8, 0), 32, 4, 16, 4, 2, 2, id="pairs of a bank: worse"),
]


@pytest.mark.parametrize(
    ("element", "pitch", "element_bytes", "width", "wavefronts", "ideal", "ways"), WARPS
)
def test_a_warp(
    element: Element,
    pitch: int,
    element_bytes: int,
    width: int,
    wavefronts: int,
    ideal: int,
    ways: int,
) -> None:
    found = banks(tile_addresses(element, pitch, element_bytes), width)
    assert (found.wavefronts, found.ideal, found.ways) == (wavefronts, ideal, ways)
    assert found.conflicts == wavefronts - ideal


def test_transposing_64_by_64() -> None:
    """128 loads down a column: 4096 wavefronts, of which 3968 are conflicts (traced before)."""
    load = banks(tile_addresses(down_a_column, pitch=32))
    assert (128 * load.wavefronts, 128 * load.conflicts) == (4096, 3968)


def test_padding_does_nothing_for_a_gemm() -> None:
    """A's element is broadcast and B's are along a row: free of conflicts at either pitch."""
    for pitch in (32, 33):
        for element in (lambda lane: (5, 7), lambda lane: (7, lane)):
            assert banks(tile_addresses(element, pitch)).conflicts == 0


def test_stores_do_not_pair() -> None:
    addresses = tile_addresses(lambda lane: (0, 0), 32)
    assert (banks(addresses, 16).wavefronts, banks(addresses, 16, store=True).wavefronts) == (2, 4)


def test_no_lane() -> None:
    assert banks([]) == Banks(wavefronts=0, ideal=0, ways=0, banks=())
    assert banks([None, None]).wavefronts == 0


def test_addresses_of_a_tile() -> None:
    assert tile_addresses(lambda lane: (lane, 1), pitch=33, lanes=3) == [4, 136, 268]
    assert tile_addresses(lambda lane: None if lane else (2, 3), 10, 8, lanes=2) == [184, None]
    assert len(tile_addresses(along_a_row, 32)) == 32


@pytest.mark.parametrize(
    ("addresses", "width", "message"),
    [
        ([0], 3, "width is 3, expected one of 1, 2, 4, 8, 16"),
        (range(0, 33 * 4, 4), 4, "addresses has 33 lanes, expected up to 32"),
        ([0, -4], 4, r"addresses\[1\] is -4, expected a multiple of 4 from 0 on"),
        ([0, 4, 6], 4, r"addresses\[2\] is 6, expected a multiple of 4"),
        ([8], 16, r"addresses\[0\] is 8, expected a multiple of 16"),
    ],
)
def test_errors(addresses: list, width: int, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^smem\.analysis\.banks: {message}"):
        banks(addresses, width)


@st.composite
def accesses(draw: st.DrawFn, widths: tuple[int, ...] = WIDTHS) -> tuple[list[int | None], int]:
    """Addresses of up to 32 lanes, and the width that they are aligned to."""
    width = draw(st.sampled_from(widths))
    place = st.integers(0, 4096 // width).map(lambda index: index * width)
    return draw(st.lists(st.none() | place, min_size=1, max_size=32)), width


@given(accesses())
def test_bounds(access: tuple[list[int | None], int]) -> None:
    addresses, width = access
    found = banks(addresses, width)
    active = sum(at is not None for at in addresses)
    assert found.ideal <= found.wavefronts <= active
    assert found.conflicts >= 0
    assert (found.conflicts == 0) == (found.ways <= 1)
    assert found.ways <= found.wavefronts
    assert found.ideal <= max(width // 4, 1)


@given(accesses(), st.integers(1, 100))
def test_a_shift_turns_the_banks(access: tuple[list[int | None], int], steps: int) -> None:
    """By 4 bytes, or by as much as keeps wider accesses aligned."""
    addresses, width = access
    shift = steps * max(width, 4)
    moved = banks([None if at is None else at + shift for at in addresses], width)
    found = banks(addresses, width)
    assert (moved.wavefronts, moved.ways) == (found.wavefronts, found.ways)
    assert moved.banks == tuple(
        None if bank is None else (bank + shift // 4) % 32 for bank in found.banks
    )


@given(accesses(widths=(1, 2, 4)), st.randoms())
def test_the_order_of_the_lanes_does_not_matter(
    access: tuple[list[int | None], int], order: random.Random
) -> None:
    """Where a lane moves a word or less, so that the whole warp is served together."""
    addresses, width = access
    shuffled = order.sample(addresses, len(addresses))
    assert banks(shuffled, width).wavefronts == banks(addresses, width).wavefronts


@given(accesses(), st.integers(0, 31))
def test_a_lane_less_never_costs_more(access: tuple[list[int | None], int], lane: int) -> None:
    addresses, width = access
    fewer = [None if index == lane else at for index, at in enumerate(addresses)]
    assert banks(fewer, width).wavefronts <= banks(addresses, width).wavefronts

"""CUDA's mathematical functions on the CPU, against torch, integers and exact fractions."""

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem

special = torch.special


def evaluate(expressions: Sequence[str], out: Tensor, **inputs: Tensor) -> Tensor:
    """Return the value of each expression of the inputs' elements, as a row of ``out``'s type."""
    names = {torch.float32: "float", torch.float64: "double", torch.int32: "int"}
    names |= {
        torch.int64: "long long",
        torch.uint32: "unsigned",
        torch.uint64: "unsigned long long",
    }
    parameters = [f"const {names[x.dtype]}* in_{name}" for name, x in inputs.items()]
    loads = [f"const auto {name} = in_{name}[i];" for name in inputs]
    stores = [f"out[{k} * n + i] = {text};" for k, text in enumerate(expressions)]
    code = (
        "#include <math_constants.h>\n"
        f"__global__ void k(int n, {', '.join(parameters)}, {names[out.dtype]}* out) {{\n"
        "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n"
        + "\n".join(loads + stores)
        + "\n}\n"
    )
    n = len(next(iter(inputs.values())))
    rows = torch.zeros(len(expressions), n, dtype=out.dtype)
    smem.RawKernel(code, "k")(-(-n // 128), 128, (n, *inputs.values(), rows))
    return rows


# Functions of one number: where, and what they are.
UNARY: dict[str, tuple[float, float, Callable[[Tensor], Tensor]]] = {
    "rsqrt": (0.01, 9, torch.rsqrt),
    "cbrt": (-9, 9, lambda x: x.sign() * x.abs().pow(1 / 3)),
    "rcbrt": (0.01, 9, lambda x: x.pow(-1 / 3)),
    "exp": (-9, 9, torch.exp),
    "exp2": (-9, 9, torch.exp2),
    "exp10": (-9, 9, lambda x: torch.pow(10, x)),
    "expm1": (-9, 9, torch.expm1),
    "log": (0.01, 9, torch.log),
    "log2": (0.01, 9, torch.log2),
    "log10": (0.01, 9, torch.log10),
    "log1p": (-0.5, 9, torch.log1p),
    "sin": (-9, 9, torch.sin),
    "cos": (-9, 9, torch.cos),
    "tan": (-1, 1, torch.tan),
    "asin": (-1, 1, torch.asin),
    "acos": (-1, 1, torch.acos),
    "atan": (-9, 9, torch.atan),
    "sinh": (-5, 5, torch.sinh),
    "cosh": (-5, 5, torch.cosh),
    "tanh": (-5, 5, torch.tanh),
    "asinh": (-5, 5, torch.asinh),
    "acosh": (1, 5, torch.acosh),
    "atanh": (-0.9, 0.9, torch.atanh),
    "sinpi": (-5, 5, lambda x: torch.sin(math.pi * x)),
    "cospi": (-5, 5, lambda x: torch.cos(math.pi * x)),
    "erf": (-3, 3, torch.erf),
    "erfc": (-3, 9, torch.erfc),
    "erfcx": (-3, 30, special.erfcx),
    "erfinv": (-0.999, 0.999, torch.erfinv),
    "erfcinv": (0.001, 1.999, lambda x: torch.erfinv(1 - x)),
    "normcdf": (-9, 9, special.ndtr),
    "normcdfinv": (0.001, 0.999, special.ndtri),
    "lgamma": (0.1, 9, torch.lgamma),
    "tgamma": (0.1, 9, lambda x: torch.lgamma(x).exp()),
    "j0": (-9, 9, special.bessel_j0),
    "j1": (-9, 9, special.bessel_j1),
    "y0": (0.1, 9, special.bessel_y0),
    "y1": (0.1, 9, special.bessel_y1),
    "cyl_bessel_i0": (-9, 9, torch.i0),
    "cyl_bessel_i1": (-9, 9, special.i1),
    "ceil": (-9, 9, torch.ceil),
    "floor": (-9, 9, torch.floor),
    "trunc": (-9, 9, torch.trunc),
    "rint": (-9, 9, torch.round),
    "fabs": (-9, 9, torch.abs),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_one_number(dtype: torch.dtype) -> None:
    """In float by both of their names: sinf(x) and sin(x)."""
    n = 300
    ranges = torch.stack([torch.linspace(low, high, n) for low, high, _ in UNARY.values()])
    x = ranges.to(dtype)
    inputs = {f"x{k}": row for k, row in enumerate(x)}
    suffixes = ("", "f") if dtype == torch.float32 else ("",)
    texts = [f"{name}{suffix}(x{k})" for suffix in suffixes for k, name in enumerate(UNARY)]
    values = evaluate(texts, x, **inputs)
    exact = torch.stack([f(row.double()) for (*_, f), row in zip(UNARY.values(), x, strict=True)])
    expected = exact.to(dtype).repeat(len(suffixes), 1)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-12
    bessel = [text[0] in "jy" for text in texts]  # torch's have the digits of float
    for value, row, rough in zip(values, expected, bessel, strict=True):
        bound = 2e-6 if rough else tolerance
        torch.testing.assert_close(value, row, rtol=bound, atol=bound)


def test_inverse_functions_in_their_tails() -> None:
    x = torch.tensor([1e-300, 1e-30, 1e-5, 0.3, 1, 1.7, 2 - 1e-12], dtype=torch.float64)
    back = evaluate(["erfc(erfcinv(x))", "2 * normcdf(normcdfinv(x / 2))"], x, x=x)
    torch.testing.assert_close(back, x.expand(2, -1), rtol=1e-11, atol=0)
    limits = torch.tensor([0.0, 1.0, 2.0])
    values = evaluate(["erfcinv(x)", "erfinv(x)", "sinpif(x)", "cospif(x)"], limits, x=limits)
    assert values[0].tolist() == [math.inf, 0, -math.inf]
    assert values[1, :2].tolist() == [0, math.inf]
    assert values[2:].tolist() == [[0, 0, 0], [1, -1, 1]]


def test_functions_of_several_numbers() -> None:
    x, y = torch.randn(2, 300)
    expected = {
        "atan2f(x, y)": torch.atan2(x, y),
        "powf(fabsf(x), y)": x.abs().pow(y),
        "pow(fabs(x), 2)": x**2,
        "fmodf(x, y)": torch.fmod(x, y),
        "hypotf(x, y)": torch.hypot(x, y),
        "rhypotf(x, y)": 1 / torch.hypot(x, y),
        "norm3df(x, y, 2)": (x**2 + y**2 + 4).sqrt(),
        "norm4df(x, y, 2, 1)": (x**2 + y**2 + 5).sqrt(),
        "rnorm3df(x, y, 2)": (x**2 + y**2 + 4).rsqrt(),
        "copysignf(x, y)": torch.copysign(x, y),
        "fdimf(x, y)": (x - y).clamp(min=0),
        "fmaf(x, y, 1)": torch.addcmul(torch.ones(1), x, y),
        "fminf(x, y) + max(x, y)": x + y,
        "min(x, 1.0) + max(1.0, y)": x.clamp(max=1) + y.clamp(min=1),
        "fdividef(x, y) - __fdividef(x, y)": torch.zeros(300),
        "__saturatef(x)": x.clamp(0, 1),
        "__expf(x) + __sinf(y) + __powf(2, x)": x.exp() + y.sin() + torch.exp2(x),
        "isnan(x / 0 * 0) + isinf(x / 0) + isfinite(x)": torch.full((300,), 3.0),
        "abs(x) + abs(static_cast<int>(4 * y)) + llabs(-3)": x.abs() + (4 * y).int().abs() + 3,
        "CUDART_INF_F > 3e38f ? CUDART_PI_F : CUDART_NAN_F": torch.full((300,), math.pi),
    }
    values = evaluate(list(expected), x, x=x, y=y)
    for text, row in zip(expected, values, strict=True):
        torch.testing.assert_close(row, expected[text], rtol=3e-6, atol=1e-6, msg=text)


def signed(number: int, bits: int = 32) -> int:
    """Return the number that the lowest bits are in two's complement."""
    number %= 2**bits
    return number - 2**bits if number >= 2 ** (bits - 1) else number


def each(a: int, b: int, bits: int, combine: Callable[[int, int], int]) -> int:
    """Return a word of which each part is combined of the parts of two words."""
    mask = 2**bits - 1
    return sum((combine(a >> s & mask, b >> s & mask) & mask) << s for s in range(0, 32, bits))


def as_signed(bits: int, combine: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: combine(signed(a, bits), signed(b, bits))


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "__popc(a)": lambda a, b: a.bit_count(),
    "__clz(a)": lambda a, b: 32 - a.bit_length(),
    "__ffs(a)": lambda a, b: (a & -a).bit_length(),
    "__brev(a)": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "__mulhi(sa, sb)": lambda a, b: signed(a) * signed(b) >> 32,
    "__umulhi(a, b)": lambda a, b: a * b >> 32,
    "__mul24(sa, sb)": lambda a, b: signed(a, 24) * signed(b, 24),
    "__umul24(a, b)": lambda a, b: a % 2**24 * (b % 2**24),
    "__sad(sa, sb, 7u)": lambda a, b: abs(signed(a) - signed(b)) + 7,
    "__usad(a, b, 7u)": lambda a, b: abs(a - b) + 7,
    "__hadd(sa, sb)": lambda a, b: signed(a) + signed(b) >> 1,
    "__rhadd(sa, sb)": lambda a, b: signed(a) + signed(b) + 1 >> 1,
    "__uhadd(a, b)": lambda a, b: a + b >> 1,
    "__urhadd(a, b)": lambda a, b: a + b + 1 >> 1,
    "__funnelshift_l(a, b, 37)": lambda a, b: (b << 32 | a) << 5 >> 32,
    "__funnelshift_r(a, b, 37)": lambda a, b: (b << 32 | a) >> 5,
    "__funnelshift_lc(a, b, 37)": lambda a, b: a,
    "__funnelshift_rc(a, b, 37)": lambda a, b: b,
    "__byte_perm(a, b, 0x5140)": lambda a, b: int.from_bytes(
        bytes((a.to_bytes(4, "little") + b.to_bytes(4, "little"))[i] for i in (0, 4, 1, 5)),
        "little",
    ),
    "__byte_perm(a, b, 0x8888)": lambda a, b: 0x01010101 * (a & 255),
    "__fns(a, 0, 3)": lambda a, b: ([i for i in range(32) if a >> i & 1] + [-1] * 3)[2],
    "__dp4a(sa, sb, 5)": lambda a, b: (
        5 + sum(signed(a >> s, 8) * signed(b >> s, 8) for s in (0, 8, 16, 24))
    ),
    "__vadd4(a, b)": lambda a, b: each(a, b, 8, lambda x, y: x + y),
    "__vsub2(a, b)": lambda a, b: each(a, b, 16, lambda x, y: x - y),
    "__vmaxs2(a, b)": lambda a, b: each(a, b, 16, as_signed(16, max)),
    "__vminu4(a, b)": lambda a, b: each(a, b, 8, min),
    "__vabsdiffu4(a, b)": lambda a, b: each(a, b, 8, lambda x, y: abs(x - y)),
    "__vcmpgts4(a, b)": lambda a, b: each(a, b, 8, as_signed(8, lambda x, y: -(x > y))),
    "__vsetles2(a, b)": lambda a, b: each(a, b, 16, as_signed(16, lambda x, y: int(x <= y))),
    "__vaddss4(a, b)": lambda a, b: each(
        a, b, 8, as_signed(8, lambda x, y: min(max(x + y, -128), 127))
    ),
    "__vsubss2(a, b)": lambda a, b: each(
        a, b, 16, as_signed(16, lambda x, y: min(max(x - y, -32768), 32767))
    ),
    "__vaddus2(a, b)": lambda a, b: each(a, b, 16, lambda x, y: min(x + y, 65535)),
    "__vsubus4(a, b)": lambda a, b: each(a, b, 8, lambda x, y: max(x - y, 0)),
    "__vavgu4(a, b)": lambda a, b: each(a, b, 8, lambda x, y: x + y + 1 >> 1),
    "__vhaddu2(a, b)": lambda a, b: each(a, b, 16, lambda x, y: x + y >> 1),
    "__vneg4(a)": lambda a, b: each(a, b, 8, lambda x, y: -x),
    "__vnegss2(a)": lambda a, b: each(a, b, 16, as_signed(16, lambda x, y: min(-x, 32767))),
    "__vabs2(a)": lambda a, b: each(a, b, 16, as_signed(16, lambda x, y: abs(x))),
    "__vabsss4(a)": lambda a, b: each(a, b, 8, as_signed(8, lambda x, y: min(abs(x), 127))),
    "__vsads2(a, b)": lambda a, b: sum(
        abs(signed(a >> s, 16) - signed(b >> s, 16)) for s in (0, 16)
    ),
    "__vsadu4(a, b)": lambda a, b: sum(
        abs((a >> s & 255) - (b >> s & 255)) for s in (0, 8, 16, 24)
    ),
    "__dp2a_lo(sa, sb, 5)": lambda a, b: (
        5 + signed(a, 16) * signed(b, 8) + signed(a >> 16, 16) * signed(b >> 8, 8)
    ),
    "__dp2a_hi(a, b, 5u)": lambda a, b: 5 + (a & 65535) * (b >> 16 & 255) + (a >> 16) * (b >> 24),
    "__dp4a(*(const uchar4*)&a, *(const uchar4*)&b, 5u)": (
        lambda a, b: 5 + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24))
    ),
    "min(sa, b) ^ max(a, sb)": lambda a, b: min(a, b) ^ max(a, b),
    "__float_as_uint(__uint_as_float(a & 0x7f7fffff))": lambda a, b: a & 0x7F7FFFFF,
    "__double2hiint(__hiloint2double(sa & 0x7fefffff, sb))": lambda a, b: a & 0x7FEFFFFF,
}


def test_integer_functions() -> None:
    torch.manual_seed(1)
    a, b = torch.randint(0, 2**32, (2, 200)).to(torch.uint32)
    a = torch.cat([a, torch.tensor([0, 1, 2**31, 2**32 - 1, 8], dtype=torch.uint32)])
    b = torch.cat([b, torch.tensor([2**32 - 1, 0, 2**31, 5, 7], dtype=torch.uint32)])
    texts = [re.sub(r"\bs([ab])\b", r"int(\1)", text) for text in INTEGERS]
    values = evaluate(texts, torch.empty(0, dtype=torch.uint32), a=a, b=b).tolist()
    for (text, function), row in zip(INTEGERS.items(), values, strict=True):
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        assert row == [function(x, y) % 2**32 for x, y in pairs], text
    wide = torch.randint(-(2**62), 2**62, (2, 100))
    texts = ["__mul64hi(x, y)", "__clzll(x)", "__popcll(x)", "__brevll(__brevll(x))", "__ffsll(x)"]
    rows = evaluate(texts, wide, x=wide[0], y=wide[1]).tolist()
    numbers = wide[0].tolist()
    assert rows[0] == [x * y >> 64 for x, y in zip(*wide.tolist(), strict=True)]
    assert rows[1] == [64 - (x % 2**64).bit_length() for x in numbers]
    assert rows[2:4] == [[(x % 2**64).bit_count() for x in numbers], numbers]
    assert rows[4] == [(x & -x).bit_length() for x in numbers]


EXACT: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b,
    "rcp": lambda a, b, c: 1 / a,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arithmetic_with_a_rounding_mode(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    a, b, c = torch.randn(3, 200, dtype=dtype) * torch.randn(3, 200, dtype=dtype).exp()
    prefix = "__f" if dtype == torch.float32 else "__d"
    fused = "__fmaf" if dtype == torch.float32 else "__fma"
    operands = {"rcp": "(a)", "fma": "(a, b, c)"}
    texts = [
        f"{fused if name == 'fma' else prefix + name}_{mode}{operands.get(name, '(a, b)')}"
        for name in EXACT
        for mode in ("rn", "rz", "rd", "ru")
    ]
    rows = iter(evaluate(texts, a, a=a, b=b, c=c))
    for name, function in EXACT.items():
        nearest, zero, down, up = next(rows), next(rows), next(rows), next(rows)
        triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        for i, triple in enumerate(triples):
            exact = function(*map(Fraction, triple))
            low, high = Fraction(down[i].item()), Fraction(up[i].item())
            assert low <= exact <= high, name
            assert low == high or torch.nextafter(down[i], up[i]) == up[i]
            assert zero[i] == (down[i] if exact > 0 else up[i])
            closer = down[i] if exact - low < high - exact else up[i]
            assert nearest[i] == closer or exact - low == high - exact
    squares = evaluate([f"{prefix}sqrt_{mode}(fabs(a))" for mode in ("rd", "ru")], a, a=a)
    for x, low, high in zip(a.abs().tolist(), *squares.tolist(), strict=True):
        assert Fraction(low) ** 2 <= Fraction(x) <= Fraction(high) ** 2


def test_numbers_to_integers_saturate() -> None:
    edges = [0.5, 1.5, -0.5, -2.5, 2.7, -2.7, 3e9, -3e9, 1e10, 1e20, -1e20, math.inf, math.nan]
    x = torch.tensor(edges, dtype=torch.float32)
    for kind, dtype, suffix in (("int", torch.int32, "int"), ("ll", torch.int64, "ll")):
        texts = [f"__float2{suffix}_{mode}(x)" for mode in ("rn", "rz", "rd", "ru")]
        texts += [f"__double2{suffix}_{mode}(x)" for mode in ("rn", "rz", "rd", "ru")]
        rows = evaluate(texts, torch.empty(0, dtype=dtype), x=x).tolist()
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        for row, rounding in zip(rows, [round, math.trunc, math.floor, math.ceil] * 2, strict=True):
            for value, number in zip(row[:-2], x.tolist(), strict=False):
                assert value == min(max(rounding(number), low), high), (kind, number)
            assert row[-2] == high
        # NaN: 0 of 32 bits, the highest bit of 64.
        of_nan = [row[-1] for row in rows]
        assert of_nan == ([0] * 4 if kind == "int" else [low] * 4) + [low] * 4
    large = torch.tensor([2**24 + 1, -(2**24) - 1, 2**31 - 1], dtype=torch.int32)
    rows = evaluate(["__int2float_rd(x)", "__int2float_ru(x)"], torch.empty(0), x=large).tolist()
    assert rows[0] == [2**24, -(2**24) - 2, 2**31 - 128]
    assert rows[1] == [2**24 + 2, -(2**24), 2**31]

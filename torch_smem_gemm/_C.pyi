from collections.abc import Callable
from typing import Any

def kernel_table() -> str: ...
def build_info() -> str: ...
def kernel_resources() -> str: ...
def kernel_symbols() -> str: ...
def active_blocks(
    op: int, kernel: int, key: int, max_threads: int, dynamic_shared_bytes: int, /
) -> str: ...
def begin_trace(size: int, arrays: list, /) -> None: ...
def end_trace() -> str: ...
def take_interruption() -> BaseException | None: ...
def plan_gemm(
    numbers: list[int], chip: tuple[int, ...], dtype: int, precision: int, kernel: int, /
) -> str: ...
def plan_transpose(numbers: list[int], chip: tuple[int, ...], /) -> str: ...
def chip(index: int, /) -> str: ...
def assumed_chip(chip: tuple[int, ...], text: str, /) -> str: ...
def run_kernel(*arguments: object) -> str | None: ...

class OpCall:
    """A call of an op by the cheapest path: ``call(*args)`` and ``call.plain(*args)``.

    ``call(*args)``, where trailing defaults may be left out, calls

    - ``public_op`` under transforms of torch.func, dispatch modes and forward mode;
    - ``differentiate`` with all arguments, if one of the first ``tensors`` requires grad;
    - ``on_cpu`` for CPU tensors;
    - ``op`` otherwise, and ``recover(error, *args)`` if that raises RuntimeError.

    ``call.plain(*args)`` does what the public function does without options. It returns
    NotImplemented for CPU tensors, where ``public_op`` is needed, and under autocast if ``cast`` is
    None. Otherwise autocast replaces tensors of other dtypes than its own by ``cast(tensor,
    dtype)``. If ``tf32_defaults`` is not None, the first tensor has float32 and torch's setting is
    tf32, all arguments are passed, the others from ``tf32_defaults``. ``apply(*args)`` is called
    instead of ``differentiate``.

    ``call.forward(ctx, *args)`` is the forward of the autograd Function that ``apply`` applies: the
    op, then ``setup(ctx, all_args, output)``.
    """

    def __new__(
        cls,
        tensors: int,
        op: Callable[..., Any],
        public_op: Callable[..., Any],
        on_cpu: Callable[..., Any],
        recover: Callable[..., Any],
        setup: Callable[[Any, tuple, Any], None],
        cast: Callable[[Any, Any], Any] | None,
        defaults: tuple,
        tf32_defaults: tuple | None,
        /,
    ) -> OpCall: ...
    def __call__(self, *args: Any) -> Any: ...
    def plain(self, *args: Any) -> Any: ...
    def forward(self, ctx: Any, /, *args: Any) -> Any: ...
    def differentiate_by(
        self, differentiate: Callable[..., Any], apply: Callable[..., Any], /
    ) -> None: ...

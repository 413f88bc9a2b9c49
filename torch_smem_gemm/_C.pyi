def kernel_table() -> str: ...
def build_info() -> str: ...
def kernel_resources() -> str: ...
def plan_gemm(
    dtype: int,
    m: int,
    n: int,
    k: int,
    batch: int,
    capability: int,
    multiprocessors: int,
    shared_bytes: int,
    /,
) -> str: ...

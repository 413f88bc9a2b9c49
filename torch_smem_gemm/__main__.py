"""``python -m torch_smem_gemm``."""

from torch_smem_gemm.cli import main

raise SystemExit(main())

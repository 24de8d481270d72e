"""Nets of tests are tiny: XLA compiles them without its slow optimisations."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

"""From a plan to checked binaries: source injection, toolchain, cache, diagnostics."""

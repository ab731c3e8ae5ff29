"""KForge MCP: agents write CUDA for an unmodified PyTorch model, a judge that cannot be fooled decides."""

__version__ = "0.1.0"

"""The `kforge-mcp` command, one module per subcommand."""

"""What an MCP client sees: tools, resources, prompts, and how results are put into words."""

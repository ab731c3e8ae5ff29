"""One module per tool. A tool's docstring and its parameters' descriptions are what a client's model reads."""

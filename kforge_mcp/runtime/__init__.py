"""Code that runs inside the model interpreter: the standard library and torch only, Python 3.10 or newer.

It imports nothing of kforge and uses relative imports alone, since there it is the package `kforge_runtime`.
"""

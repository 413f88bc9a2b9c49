"""The ops, one module each: signature, checks, CPU form, gradient, vmap rule."""

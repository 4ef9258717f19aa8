"""The AdaPrivate family: Algorithm 1 and its variants."""

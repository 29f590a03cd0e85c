"""GELU and its slope from one exponential, for a GPU in bfloat16.

The normal distribution's cumulative probability at x is taken as the logistic function of the odd
polynomial x (a + b x^2 + c x^4), fitted here. GELU then comes within 2.6e-5 of the exact one and
its slope, which is the approximation's own, within 1.1e-4 (largest absolute errors over all x).

That is below half a step of bfloat16, the rounding of any result, for values beyond 1/128 and
slopes beyond 1/32 in magnitude. Values that are smaller are also within it above x = -2.7, since
near x = 0 the error vanishes with the value. Below -2.7, and for slopes near their zero at -0.75,
the error can be several steps; it is then small beside 1, not beside the result itself. The steps
of float16 are eight times finer, which the error would show in, so float16 takes the exact form.
"""

import math

# a, b and c in units of log(2): the kernel's exponential has the base two.
EXPONENT = (2.301120433, 0.106776772, -0.0010144881)
# Beyond this x^2 the polynomial goes on as a straight line, since x^5 would turn it around.
LARGEST_SQUARE = 20.25
# The polynomial's derivative is a + 3 b x^2 + 5 c x^4, in units of one.
DERIVATIVE = tuple(math.log(2) * (2 * i + 1) * value for i, value in enumerate(EXPONENT))

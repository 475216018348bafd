/* Special functions of one or two real arguments, in long double inside, for results that are good in double.
 *
 * Each uses the textbook expansion whose terms do not cancel where it is used: power series with positive terms, asymptotic series
 * after the argument has been moved up by the recurrence, Newton steps on functions that libm has. */
#include "pipeline/hlo/eval_kernels.h"

#include <math.h>

#define PI 3.14159265358979323846264338327950288L

/* Numerators and denominators B(2k) of Bernoulli numbers, k = 1.. */
static const long double bernoulli[] = {1.0L / 6, -1.0L / 30, 1.0L / 42, -1.0L / 30, 5.0L / 66, -691.0L / 2730, 7.0L / 6, -3617.0L / 510,
    43867.0L / 798, -174611.0L / 330, 854513.0L / 138, -236364091.0L / 2730, 8553103.0L / 6};

double ev_erf_inv(double x)
{
    if (isnan(x) || x < -1 || x > 1)
        return (double)NAN;
    if (x == 1 || x == -1)
        return copysign((double)INFINITY, x);
    if (x == 0)
        return x;
    /* A rough start from the logarithm of 1 - x^2 (good to 2e-3), then Halley steps on erfc of the tail that is left. */
    long double p = fabsl((long double)x), tail = 1 - p, l = logl(tail * (1 + p));
    long double a = 0.147L, t = 2 / (PI * a) + l / 2;
    long double y = sqrtl(sqrtl(t * t - l / a) - t);
    for (int i = 0; i < 6; i++) {
        long double f = p < 0.5L ? erfl(y) - p : tail - erfcl(y);
        long double step = f / (2 / sqrtl(PI) * expl(-y * y));
        long double delta = step / (1 + y * step);
        y -= delta;
        if (fabsl(delta) <= fabsl(y) * 0x1p-62L)
            break;
    }
    return copysign((double)y, x);
}

static long double digamma_positive(long double x)
{
    long double r = 0;
    for (; x < 20; x += 1)
        r -= 1 / x;
    long double inv = 1 / (x * x), p = inv;
    r += logl(x) - 0.5L / x;
    for (size_t k = 0; k < NF_ARRAY_LEN(bernoulli); k++, p *= inv)
        r -= bernoulli[k] / (2 * (long double)(k + 1)) * p;
    return r;
}

double ev_digamma(double x)
{
    if (isnan(x) || x == -(double)INFINITY)
        return (double)NAN;
    if (x == (double)INFINITY)
        return x;
    if (x == 0)
        return copysign((double)INFINITY, -x);
    if (x > 0)
        return (double)digamma_positive(x);
    long double f = (long double)x - floorl((long double)x);
    if (f == 0)
        return (double)NAN;
    /* reflection: psi(1 - x) - pi / tan(pi x), with the fraction reduced first */
    return (double)(digamma_positive(1 - (long double)x) - PI / tanl(PI * f));
}

/* Hurwitz zeta: the first terms, then Euler-Maclaurin. */
static long double zeta_sum(long double s, long double q)
{
    long double sum = 0;
    int n = 0;
    for (; n < 24 || q + n < 24; n++) {
        long double term = powl(q + n, -s);
        sum += term;
        if (term == 0 || fabsl(term) < fabsl(sum) * 0x1p-80L)
            return sum;
    }
    long double w = q + n, b = powl(w, -s);
    sum += b * w / (s - 1) + 0.5L * b;
    long double fac = s, p = b / w, fact = 2; /* s (s+1) ... (s+2k-2) w^(-s-2k+1) / (2k)! */
    for (size_t k = 0; k < NF_ARRAY_LEN(bernoulli); k++) {
        long double t = bernoulli[k] * fac * p / fact;
        sum += t;
        if (fabsl(t) < fabsl(sum) * 0x1p-80L)
            break;
        long double j = 2 * (long double)(k + 1);
        fac *= (s + j - 1) * (s + j);
        p /= w * w;
        fact *= (j + 1) * (j + 2);
    }
    return sum;
}

double ev_zeta(double x, double q)
{
    if (isnan(x) || isnan(q) || x < 1)
        return (double)NAN;
    if (x == 1)
        return (double)INFINITY;
    if (q <= 0) {
        if (q == floor(q))
            return x == floor(x) && fmod(x, 2) == 0 ? (double)INFINITY : (double)NAN;
        if (x != floor(x))
            return (double)NAN;
        /* move up to the first positive argument; the powers of negative numbers are signed */
        long double sum = 0, a = q;
        if (q < -1e6)
            return (double)NAN;
        for (; a < 0; a += 1)
            sum += (fmod(x, 2) == 0 ? 1 : -1) * powl(-a, -(long double)x);
        return (double)(sum + zeta_sum(x, a));
    }
    if (isinf(x))
        return q < 1 ? (double)INFINITY : q == 1 ? 1 : 0;
    return (double)zeta_sum(x, q);
}

double ev_polygamma(double n, double x)
{
    if (isnan(n) || isnan(x) || n != floor(n) || n < 0)
        return (double)NAN;
    if (n == 0)
        return ev_digamma(x);
    double z = ev_zeta(n + 1, x);
    long double g = expl(lgammal((long double)n + 1)); /* n + 1 > 0: the sign is never needed */
    if (n < 170) {
        g = 1;
        for (int i = 2; i <= (int)n; i++)
            g *= i;
    }
    return (double)((fmod(n, 2) == 0 ? -1 : 1) * g * (long double)z);
}

double ev_bessel_i1e(double x)
{
    long double a = fabsl((long double)x), r;
    if (isnan(x))
        return x;
    if (isinf(x))
        return copysign(0, x);
    if (a < 30) {
        /* (x/2) sum (x^2/4)^k / (k! (k+1)!) */
        long double t = a / 2, q = t * t, sum = t;
        for (int k = 1; k < 200; k++) {
            t *= q / ((long double)k * (long double)(k + 1));
            sum += t;
            if (t < sum * 0x1p-70L)
                break;
        }
        r = sum * expl(-a);
    } else {
        /* 1/sqrt(2 pi x) (1 - 3/(8x) - ...), terms t(k) = -t(k-1) (4 - (2k-1)^2) / (8 x k) */
        long double t = 1, sum = 1;
        for (int k = 1; k < 60; k++) {
            long double m = 2 * (long double)k - 1, next = -t * (4 - m * m) / (8 * a * (long double)k);
            if (fabsl(next) > fabsl(t) || fabsl(next) < 0x1p-70L)
                break;
            t = next;
            sum += t;
        }
        r = sum / sqrtl(2 * PI * a);
    }
    return copysign((double)r, x);
}

double ev_lgamma(double x)
{
    int sign;
    return (double)lgammal_r((long double)x, &sign);
}

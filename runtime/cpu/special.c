/* special.c: see special.h. Accurate to a few units of 1e-15 relative, which is far inside f32. */
#include "runtime/cpu/special.h"

#include <math.h>

double cpu_lgamma(double x)
{
    int sign;
    if (x == -INFINITY) return INFINITY;
    return lgamma_r(x, &sign);
}

double cpu_erf_inv(double x)
{
    if (isnan(x) || x < -1 || x > 1) return NAN;
    if (x == 1 || x == -1) return copysign(INFINITY, x);
    if (x == 0) return x;
    /* A start from the tail's asymptotic form, then Newton's and Halley's steps on erf or, far out, on log erfc. */
    double a = fabs(x), l = log1p(-a * a), b = 2 / (M_PI * 0.147) + l / 2;
    double y = sqrt(sqrt(b * b - l / 0.147) - b);
    for (int i = 0; i < 4; i++) {
        double f = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y), d = M_2_SQRTPI * exp(-y * y);
        if (d == 0) break;
        double step = f / d;
        y -= step / (1 + y * step);
    }
    return copysign(y, x);
}

double cpu_digamma(double x)
{
    double r = 0;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        double f = x - floor(x);
        if (f == 0) return NAN;
        return cpu_digamma(1 - x) - M_PI / tan(M_PI * x);
    }
    while (x < 12) {
        r -= 1 / x;
        x += 1;
    }
    double z = 1 / (x * x);
    double series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return r + log(x) - 0.5 / x - series;
}

double cpu_bessel_i1e(double x)
{
    double a = fabs(x);
    if (isnan(x)) return x;
    if (a > 700) { /* asymptotic */
        double m = 4, t = 1, sum = 1;
        for (int k = 1; k < 12; k++) {
            t *= -(m - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8 * a);
            sum += t;
        }
        return copysign(sum / sqrt(2 * M_PI * a), x);
    }
    if (a > 20) {
        double t = 1, sum = 1, last = INFINITY;
        for (int k = 1; k < 40; k++) {
            t *= -(4 - (2.0 * k - 1) * (2.0 * k - 1)) / (k * 8 * a);
            if (fabs(t) > last) break;
            last = fabs(t);
            sum += t;
            if (fabs(t) < 1e-17) break;
        }
        return copysign(sum / sqrt(2 * M_PI * a), x);
    }
    double h = a / 2, t = h, sum = h;
    for (int k = 1; k < 200; k++) {
        t *= h * h / (k * (k + 1.0));
        sum += t;
        if (t < sum * 1e-17) break;
    }
    return copysign(sum * exp(-a), x);
}

double cpu_zeta(double s, double q)
{
    /* Bernoulli numbers B2k/(2k)! for the Euler-Maclaurin tail. */
    static const double b[] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0,
                               1.0 / 74724249600.0, -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0};
    if (isnan(s) || isnan(q) || s < 1) return NAN;
    if (s == 1) return INFINITY;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s)) return NAN;
    }
    double sum = 0, a = q;
    int i = 0;
    for (; i < 10 || a <= 9; i++, a += 1) {
        double t = pow(a, -s);
        sum += t;
        if (a > 9 && fabs(t) < fabs(sum) * 1e-17) return sum;
        if (i > 100000) break;
    }
    double p = pow(a, -s);
    sum += p * a / (s - 1) + 0.5 * p;
    double f = s, t = p / a;
    for (int k = 0; k < 9; k++) {
        double term = b[k] * f * t;
        sum += term;
        if (fabs(term) < fabs(sum) * 1e-17) break;
        f *= (s + 2 * k + 1) * (s + 2 * k + 2);
        t /= a * a;
    }
    return sum;
}

double cpu_polygamma(double n, double x)
{
    if (n < 0 || n != floor(n)) return NAN;
    if (n == 0) return cpu_digamma(x);
    double sign = fmod(n, 2) == 1 ? 1 : -1;
    return sign * exp(cpu_lgamma(n + 1)) * cpu_zeta(n + 1, x);
}

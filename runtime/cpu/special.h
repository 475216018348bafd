/* special.h: special functions that libm lacks, in double, and the combining step of reductions. */
#ifndef NEFFD_RUNTIME_CPU_SPECIAL_H
#define NEFFD_RUNTIME_CPU_SPECIAL_H

#include <complex.h>

#ifndef CMPLX /* glibc has it for gcc alone */
#define CMPLX(x, y) __builtin_complex((double)(x), (double)(y))
#endif

double cpu_erf_inv(double x);
double cpu_lgamma(double x);                  /* thread-safe; the sign of gamma is dropped */
double cpu_digamma(double x);
double cpu_bessel_i1e(double x);              /* exp(-|x|) I1(x) */
double cpu_zeta(double s, double q);          /* Hurwitz */
double cpu_polygamma(double n, double x);

#endif

/* SPDX-License-Identifier: MIT */
/* tests/support/attention_reference.h: attention and its gradients in f64 by their formulas, and
 * how far from them a form with given units of error may be.
 *
 * With P the weights, for the gradient G of O = P V: dV = P' G, dS = P o (G V' - rowsum(G o O)),
 * dQ = scale dS K, dK = scale dS' Q. The bounds follow the same formulas to the first order in
 * the units:
 *  - a score is off by `given` times the sum of |q| |k|, and a weight, which is a quotient of
 *    exponentials of such, by twice the largest of a row;
 *  - a product with a computed operand (P or dS) adds `computed`, as this operand is rounded to
 *    what is multiplied;
 *  - what is stored adds `stored`, also to O in rowsum(G o O). */
#ifndef PH_TESTS_ATTENTION_REFERENCE_H
#define PH_TESTS_ATTENTION_REFERENCE_H
#include "support/support.h"
#include <math.h>
#include <stdlib.h>

/* Relative to the sum of the products' magnitudes; tiny: absolute, for subnormal numbers. */
typedef struct t_units {
    double given, computed, stored, tiny;
} t_units;

/* q, g: [heads, tq, d]; k, v: [kv_heads, tk, d]. want, bound: of O, dQ, dK, dV. */
typedef struct t_attention {
    int64_t heads, kv_heads, tq, tk, d;
    bool causal;
    double scale;
    double *in[3], *g;
    double *want[4], *bound[4];
} t_attention;

/* O and the three inputs, in that order. */
static inline int64_t t_attention_count(const t_attention *a, int which)
{
    return (which < 2 ? a->heads * a->tq : a->kv_heads * a->tk) * a->d;
}

static inline double *t_doubles(int64_t count)
{
    double *out = calloc((size_t)count + 1, sizeof *out);
    assert_non_null(out);
    return out;
}

/* Zeros. */
static inline void t_attention_make(t_attention *a)
{
    for (int i = 0; i < 4; i++) {
        a->want[i] = t_doubles(t_attention_count(a, i));
        a->bound[i] = t_doubles(t_attention_count(a, i));
    }
    for (int i = 0; i < 3; i++)
        a->in[i] = t_doubles(t_attention_count(a, i + 1));
    a->g = t_doubles(t_attention_count(a, 0));
    a->scale = 1 / sqrt((double)a->d);
}

static inline void t_attention_free(t_attention *a)
{
    for (int i = 0; i < 4; i++) {
        free(a->want[i]);
        free(a->bound[i]);
    }
    for (int i = 0; i < 3; i++)
        free(a->in[i]);
    free(a->g);
}

/* The sum of products, and of their magnitudes. */
static inline double t_dot(double *size, const double *x, const double *y, int64_t n)
{
    double sum = 0;
    *size = 0;
    for (int64_t c = 0; c < n; c++) {
        sum += x[c] * y[c];
        *size += fabs(x[c] * y[c]);
    }
    return sum;
}

/* p: the weights of a row, of which `seen` are there. Gives their relative error. */
static inline double t_attention_weights(double *p, const t_attention *a, const t_units *u,
                                         const double *q, const double *k, int64_t seen)
{
    double most = -INFINITY, widest = 0, total = 0, size;
    for (int64_t j = 0; j < seen; j++) {
        p[j] = a->scale * t_dot(&size, q, k + j * a->d, a->d);
        most = fmax(most, p[j]);
        widest = fmax(widest, fabs(a->scale) * size);
    }
    for (int64_t j = 0; j < seen; j++)
        total += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < seen; j++)
        p[j] /= total;
    return 2 * u->given * widest + u->computed;
}

/* O of a row; gives the error of rowsum(G o O). */
static inline double t_attention_out(const t_attention *a, const t_units *u, const double *p,
                                     double off, int64_t row, const double *v, int64_t seen)
{
    double *o = a->want[0] + row * a->d, *bound = a->bound[0] + row * a->d, *g = a->g + row * a->d,
           sum = 0;
    for (int64_t j = 0; j < seen; j++)
        for (int64_t c = 0; c < a->d; c++) {
            o[c] += p[j] * v[j * a->d + c];
            bound[c] += off * p[j] * fabs(v[j * a->d + c]);
        }
    for (int64_t c = 0; c < a->d; c++) {
        bound[c] += u->stored * fabs(o[c]) + u->tiny;
        sum += fabs(g[c]) * (bound[c] + u->given * fabs(o[c]));
    }
    return sum;
}

/* What a row adds to the gradients. */
static inline void t_attention_row(const t_attention *a, const t_units *u, int64_t row, double *p)
{
    int64_t d = a->d, i = row % a->tq, head = row / a->tq;
    int64_t first = head / (a->heads / a->kv_heads) * a->tk * d;
    int64_t seen = a->causal ? i + a->tk - a->tq + 1 : a->tk;
    const double *q = a->in[0] + row * d, *k = a->in[1] + first, *v = a->in[2] + first,
                 *g = a->g + row * d;
    seen = seen < 0 ? 0 : seen;
    double off = t_attention_weights(p, a, u, q, k, seen), size;
    double off_sum = t_attention_out(a, u, p, off, row, v, seen);
    double sum = t_dot(&size, g, a->want[0] + row * d, d);
    for (int64_t j = 0; j < seen; j++) {
        double dp = t_dot(&size, g, v + j * d, d), ds = a->scale * p[j] * (dp - sum);
        double off_ds = fabs(a->scale) * p[j] * (off * fabs(dp - sum) + u->given * size + off_sum);
        off_ds += u->computed * fabs(ds);
        for (int64_t c = 0; c < d; c++) {
            int64_t query = row * d + c, key = first + j * d + c;
            a->want[1][query] += ds * k[j * d + c];
            a->want[2][key] += ds * q[c];
            a->want[3][key] += p[j] * g[c];
            a->bound[1][query] += off_ds * fabs(k[j * d + c]);
            a->bound[2][key] += off_ds * fabs(q[c]);
            a->bound[3][key] += p[j] * off * fabs(g[c]);
        }
    }
}

/* want and bound from in and g. */
static inline void t_attention_reference(const t_attention *a, const t_units *u)
{
    double *p = t_doubles(a->tk);
    for (int64_t row = 0; row < a->heads * a->tq; row++)
        t_attention_row(a, u, row, p);
    for (int i = 1; i < 4; i++)
        for (int64_t n = 0; n < t_attention_count(a, i); n++)
            a->bound[i][n] += u->stored * fabs(a->want[i][n]) + u->tiny;
    free(p);
}
#endif

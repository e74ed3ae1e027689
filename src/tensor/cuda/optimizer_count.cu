/* SPDX-License-Identifier: MIT */
/* cuda/optimizer_count.cu: what a parameter's next update takes from its steps: the counter's
 * derived numbers. C and CUDA alike: nn/optimizer/count.c takes it in as well as NVRTC; FN of who
 * takes it in. Nothing is counted here: the update itself does that (optimizer.cu).
 *
 *   - c[0] steps made; c[1], c[2] what is kept beside them: NAdam's mu_product, ASGD's eta and mu
 *   - c[3], c[4] the same after the update
 *   - c[5] .. c[7] derived: what the update takes */
FN(void) ph_optimizer_derive(double *c, const double *number, double lr, int rule)
{
    const double t = c[0] + 1;
    if (rule == 1) { /* Adam */
        c[5] = 1 - pow(number[1], t);
        c[6] = sqrt(1 - pow(number[2], t));
    } else if (rule == 2) { /* NAdam; number[4]: momentum_decay */
        const double mu = number[1] * (1 - 0.5 * pow(0.96, t * number[4]));
        const double next = number[1] * (1 - 0.5 * pow(0.96, (t + 1) * number[4]));
        const double product = (c[0] > 0 ? c[1] : 1) * mu;
        c[3] = product;
        c[5] = (1 - mu) / (1 - product);
        c[6] = next / (1 - product * next);
        c[7] = sqrt(1 - pow(number[2], t));
    } else if (rule == 3) { /* RAdam; 5: the length from which the variance is known */
        const double power = pow(number[2], t), bias2 = 1 - power;
        const double most = 2 / (1 - number[2]) - 1, length = most - 2 * t * power / bias2;
        c[5] = 1 - pow(number[1], t);
        c[6] = length > 5
                   ? sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) *
                         sqrt(bias2)
                   : 0;
    } else if (rule == 4) { /* Adamax */
        c[5] = 1 - pow(number[1], t);
    } else if (rule == 5) { /* ASGD; number: lambd, alpha, t0 */
        c[3] = lr / pow(1 + number[1] * lr * t, number[2]);
        c[4] = t - number[3] > 1 ? 1 / (t - number[3]) : 1;
        c[5] = c[0] > 0 ? c[1] : lr;
        c[6] = c[0] > 0 ? c[2] : 1;
    } else if (rule == 6) { /* Adagrad; number[1]: lr_decay */
        c[5] = 1 + (t - 1) * number[1];
    } else if (rule == 7) { /* SGD: the first step */
        c[5] = c[0] == 0;
    }
}

#ifndef HOST
struct count_args {
    f64 *counters;
    const f64 *lr_at; /* a cell, or NULL: lr */
    f64 lr, number[5];
    i64 count;
    u64 mask[32];
    u32 rule;
};
PH_KERNEL KERNEL(const __grid_constant__ count_args a)
{
    PH_WAIT();
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.count && a.mask[i / 64] >> i % 64 & 1)
        ph_optimizer_derive(a.counters + i * 8, a.number, a.lr_at ? *a.lr_at : a.lr, (int)a.rule);
}
#endif

/* SPDX-License-Identifier: MIT */
/* tests/support/optimizer_reference.c: a step of each kind in float64, one element at a time. */
#include "support/optimizer_rules.h"
#include <math.h>

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static void sgd(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    g += r->weight_decay * e->at;
    if (r->momentum != 0) {
        e->m = c->steps == 1 ? g : r->momentum * e->m + (1 - r->dampening) * g;
        g = r->nesterov ? g + r->momentum * e->m : e->m;
    }
    e->at -= r->lr * g;
}

/* The weights decay by themselves, or as part of the gradient, which it gives. */
static double decay(const oc_rule *r, bool decoupled, oc_element *e, double g)
{
    if (!decoupled)
        return g + r->weight_decay * e->at;
    e->at -= r->lr * r->weight_decay * e->at;
    return g;
}

static void moments(const oc_rule *r, oc_element *e, double g)
{
    e->m = r->beta1 * e->m + (1 - r->beta1) * g;
    e->v = r->beta2 * e->v + (1 - r->beta2) * g * g;
}

static void adam(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    moments(r, e, decay(r, r->kind == OC_ADAMW, e, g));
    e->w = fmax(e->w, e->v);
    double m = e->m / (1 - pow(r->beta1, c->steps));
    double v = (r->amsgrad ? e->w : e->v) / (1 - pow(r->beta2, c->steps));
    e->at -= r->lr * m / (sqrt(v) + r->eps);
}

static double mu_at(const oc_rule *r, double t)
{
    return r->beta1 * (1 - 0.5 * pow(0.96, t * r->momentum_decay));
}

static void nadam(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    double t = c->steps, next = mu_at(r, t + 1);
    g = decay(r, r->decoupled, e, g);
    moments(r, e, g);
    double m = next * e->m / (1 - c->product * next) + (1 - mu_at(r, t)) * g / (1 - c->product);
    e->at -= r->lr * m / (sqrt(e->v / (1 - pow(r->beta2, t))) + r->eps);
}

static void radam(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    double t = c->steps, power = pow(r->beta2, t), most = 2 / (1 - r->beta2) - 1;
    double length = most - 2 * t * power / (1 - power), by = 1;
    moments(r, e, decay(r, r->decoupled, e, g));
    if (length > 5)
        by = sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) *
             sqrt(1 - power) / (sqrt(e->v) + r->eps);
    e->at -= r->lr * e->m / (1 - pow(r->beta1, t)) * by;
}

static void adamax(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    g = decay(r, false, e, g);
    e->m = r->beta1 * e->m + (1 - r->beta1) * g;
    e->v = fmax(r->beta2 * e->v, fabs(g) + r->eps);
    e->at -= r->lr / (1 - pow(r->beta1, c->steps)) * e->m / e->v;
}

static void adadelta(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    (void)c;
    g = decay(r, false, e, g);
    e->v = r->alpha * e->v + (1 - r->alpha) * g * g;
    double delta = sqrt(e->m + r->eps) / sqrt(e->v + r->eps) * g;
    e->m = r->alpha * e->m + (1 - r->alpha) * delta * delta;
    e->at -= r->lr * delta;
}

static void adagrad(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    g = decay(r, false, e, g);
    e->v += g * g;
    e->at -= r->lr / (1 + (c->steps - 1) * r->lr_decay) * g / (sqrt(e->v) + r->eps);
}

static void rmsprop(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    (void)c;
    g = decay(r, false, e, g);
    e->v = r->alpha * e->v + (1 - r->alpha) * g * g;
    e->w = r->alpha * e->w + (1 - r->alpha) * g;
    g /= sqrt(r->centered ? e->v - e->w * e->w : e->v) + r->eps;
    e->m = r->momentum * e->m + g;
    e->at -= r->lr * (r->momentum > 0 ? e->m : g);
}

static void asgd(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    g = decay(r, false, e, g);
    e->at -= r->lambd * c->eta * e->at + c->eta * g;
    e->m += (e->at - e->m) * c->mu;
}

static void rprop(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    (void)c;
    double turn = sign_of(g * e->m);
    e->v = fmin(fmax(e->v * (turn > 0 ? r->more : turn < 0 ? r->less : 1), r->least), r->most);
    g = turn < 0 ? 0 : g;
    e->at -= sign_of(g) * e->v;
    e->m = g;
}

static void lion(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    (void)c;
    double update = sign_of(r->beta1 * e->m + (1 - r->beta1) * g);
    e->at -= r->lr * (update + r->weight_decay * e->at);
    e->m = r->beta2 * e->m + (1 - r->beta2) * g;
}

void oc_begin(const oc_rule *r, oc_counter *c, double *v, int64_t count)
{
    if (c->steps == 0) {
        c->product = c->mu = 1;
        c->eta = r->lr;
        for (int64_t i = 0; i < count; i++)
            v[i] = r->kind == OC_RPROP ? r->lr : r->kind == OC_ADAGRAD ? r->initial : 0;
    }
    c->steps++;
    c->product *= mu_at(r, c->steps);
}

void oc_update(const oc_rule *r, const oc_counter *c, oc_element *e, double g)
{
    static void (*const update[OC_KINDS])(const oc_rule *, const oc_counter *, oc_element *,
                                          double) = {
        [OC_SGD] = sgd,         [OC_ADAM] = adam,   [OC_ADAMW] = adam,    [OC_RMSPROP] = rmsprop,
        [OC_NADAM] = nadam,     [OC_RADAM] = radam, [OC_ADAMAX] = adamax, [OC_ADADELTA] = adadelta,
        [OC_ADAGRAD] = adagrad, [OC_ASGD] = asgd,   [OC_RPROP] = rprop,   [OC_LION] = lion};
    update[r->kind](r, c, e, r->maximize ? -g : g);
}

void oc_end(const oc_rule *r, oc_counter *c)
{
    c->eta = r->lr / pow(1 + r->lambd * r->lr * c->steps, r->alpha);
    c->mu = 1 / fmax(1, c->steps - r->t0);
}

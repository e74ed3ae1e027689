/* SPDX-License-Identifier: MIT */
/* tensor/random/op_draw.c: random numbers of an operator: from its tape's generator. */
#include "tensor/random/op_draw.h"
#include "tensor/generator/draw.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

bool ph__op_draw(ph__draw *out, ph__op *op, unsigned words)
{
    ph_generator *generator = ph__tape_generator(op->tape);
    if (!generator)
        return false;
    if (generator->backend->device != ph_tape_device(op->tape))
        return ph__op_fail(op, PH_ERROR_WRONG_DEVICE, "the tape's generator is of another device");
    return ph__op_check(op, ph__generator_draw(out, generator, ph_tape_stream(op->tape), words));
}

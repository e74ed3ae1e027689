/* SPDX-License-Identifier: MIT */
/* tensor/files/format.c: tensors as text, in PyTorch's manner: aligned columns, one style for all
 * numbers, edges of large ones alone. */
#include "base/alloc.h"
#include "base/half.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/transfer.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WHOLE_COUNT = 1000, /* larger ones are cut */
    EDGE = 3,           /* elements on either side that stay */
    LINE_WIDTH = 80,
    ELEMENT_BYTES = 64
};
static const char head[] = "tensor(";

typedef enum style {
    STYLE_WHOLE,      /* "3." for floats, "3" for integers */
    STYLE_FIXED,      /* 3.1416 */
    STYLE_SCIENTIFIC, /* 3.1416e+00 */
} style;

typedef struct printer {
    ph__text text;
    const char *data; /* contiguous, of shape */
    ph_dtype dtype;
    ph_shape shape;
    bool cut[PH_MAX_RANK]; /* a gap in the middle */
    style style;
    size_t width;
} printer;

static double real_at(const printer *p, int64_t i)
{
    const char *at = p->data + (size_t)i * ph_dtype_size(p->dtype);
    float f32;
    double f64;
    uint16_t half;
    switch (p->dtype) {
    case PH_DTYPE_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case PH_DTYPE_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    default:
        memcpy(&half, at, sizeof half);
        return (double)(p->dtype == PH_DTYPE_F16 ? ph__f16_get(half) : ph__bf16_get(half));
    }
}

static int64_t integer_at(const printer *p, int64_t i)
{
    const char *at = p->data + (size_t)i * ph_dtype_size(p->dtype);
    int32_t i32;
    int64_t i64;
    switch (p->dtype) {
    case PH_DTYPE_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case PH_DTYPE_I64:
        memcpy(&i64, at, sizeof i64);
        return i64;
    default:
        return *(const unsigned char *)at;
    }
}

static void format_element(char out[ELEMENT_BYTES], const printer *p, int64_t i)
{
    if (p->dtype == PH_DTYPE_BOOL) {
        (void)snprintf(out, ELEMENT_BYTES, "%s", integer_at(p, i) ? "true" : "false");
    } else if (!ph_dtype_is_floating(p->dtype)) {
        (void)snprintf(out, ELEMENT_BYTES, "%" PRId64, integer_at(p, i));
    } else {
        double value = real_at(p, i);
        if (!isfinite(value))
            (void)snprintf(out, ELEMENT_BYTES, "%s",
                           isnan(value) ? "nan"
                           : value < 0  ? "-inf"
                                        : "inf");
        else if (p->style == STYLE_WHOLE)
            (void)snprintf(out, ELEMENT_BYTES, "%.0f.", value);
        else
            (void)snprintf(out, ELEMENT_BYTES, p->style == STYLE_FIXED ? "%.4f" : "%.4e", value);
    }
}

/* One style for all: by the largest and the smallest magnitude that is not 0. */
static void choose_style(printer *p, int64_t count)
{
    double low = INFINITY, high = 0;
    bool whole = true;
    p->style = STYLE_WHOLE;
    if (!ph_dtype_is_floating(p->dtype))
        return;
    for (int64_t i = 0; i < count; i++) {
        double value = fabs(real_at(p, i));
        if (value == 0 || !isfinite(value))
            continue;
        low = value < low ? value : low;
        high = value > high ? value : high;
        whole = whole && value == trunc(value);
    }
    if (high > 0 && (high / low > 1000 || high > 1e8 || (!whole && low < 1e-4)))
        p->style = STYLE_SCIENTIFIC;
    else
        p->style = whole ? STYLE_WHOLE : STYLE_FIXED;
}

static void choose_width(printer *p, int64_t count)
{
    char element[ELEMENT_BYTES];
    for (int64_t i = 0; i < count; i++) {
        format_element(element, p, i);
        p->width = strlen(element) > p->width ? strlen(element) : p->width;
    }
}

static void add_blanks(printer *p, size_t count)
{
    ph__text_format(&p->text, "%*s", (int)count, "");
}

/* The innermost axis: as many elements a line as fit. */
static void add_element_row(printer *p, int64_t first, size_t indent)
{
    char element[ELEMENT_BYTES];
    size_t axis = p->shape.rank - 1, room = indent < LINE_WIDTH ? LINE_WIDTH - indent : 1;
    size_t a_line = room / (p->width + 2) ? room / (p->width + 2) : 1, on_line = 0;
    ph__text_add(&p->text, "[");
    for (int64_t i = 0; i < p->shape.dim[axis]; i++) {
        bool gap = p->cut[axis] && i == EDGE;
        for (int part = gap ? 0 : 1; part < 2; part++) {
            if (i > 0)
                ph__text_add(&p->text, on_line == a_line ? ",\n" : ", ");
            if (on_line == a_line) {
                add_blanks(p, indent);
                on_line = 0;
            }
            if (part == 0) {
                ph__text_add(&p->text, "...");
            } else {
                format_element(element, p, first + i);
                ph__text_format(&p->text, "%*s", (int)p->width, element);
            }
            on_line++;
        }
    }
    ph__text_add(&p->text, "]");
}

static void add_between(printer *p, size_t axis, size_t indent)
{
    ph__text_add(&p->text, ",");
    for (size_t i = axis + 1; i < p->shape.rank; i++)
        ph__text_add(&p->text, "\n");
    add_blanks(p, indent);
}

/* At most PH_MAX_RANK deep. step: elements of one index of the axis. */
static void add_axis(printer *p, size_t axis, int64_t first, int64_t step, size_t indent)
{
    if (axis + 1 == p->shape.rank) {
        add_element_row(p, first, indent + 1);
        return;
    }
    int64_t inner = p->shape.dim[axis + 1];
    ph__text_add(&p->text, "[");
    for (int64_t i = 0; i < p->shape.dim[axis]; i++) {
        if (i > 0)
            add_between(p, axis, indent + 1);
        if (p->cut[axis] && i == EDGE) {
            ph__text_add(&p->text, "...");
            add_between(p, axis, indent + 1);
        }
        add_axis(p, axis + 1, first + i * step, step / inner, indent + 1);
    }
    ph__text_add(&p->text, "]");
}

static char *print_tensor(printer *p, const ph_tensor *x)
{
    char described[PH__DESCRIBE], element[ELEMENT_BYTES];
    int64_t count = ph_shape_count(&p->shape);
    choose_style(p, count);
    choose_width(p, count);
    ph__text_add(&p->text, head);
    if (count == 0) {
        ph__text_add(&p->text, "[]");
    } else if (p->shape.rank == 0) {
        format_element(element, p, 0);
        ph__text_add(&p->text, element);
    } else {
        add_axis(p, 0, 0, count / p->shape.dim[0], strlen(head));
    }
    ph__text_format(&p->text, ", %s)", ph__describe(described, x));
    return ph__text_detach(&p->text);
}

/* The edges of x alone, by the tape's own operators. */
static ph_tensor *edges_of(ph_tape *tape, ph_tensor *x, bool cut[PH_MAX_RANK])
{
    for (int axis = 0; x && x->count > 0 && axis < (int)x->shape.rank; axis++) {
        int64_t dim = x->shape.dim[axis];
        if (dim <= 2 * EDGE)
            continue;
        ph_shape shape = x->shape;
        shape.dim[axis] = 2 * EDGE;
        ph_tensor *y = ph_empty(tape, x->dtype, shape);
        ph_tensor_copy(tape, ph_slice(tape, y, axis, 0, EDGE), ph_slice(tape, x, axis, 0, EDGE));
        ph_tensor_copy(tape, ph_slice(tape, y, axis, EDGE, 2 * EDGE),
                       ph_slice(tape, x, axis, dim - EDGE, dim));
        cut[axis] = true;
        x = y;
    }
    return x;
}

static ph_status read_data(char **out, printer *p, ph_tape *tape, ph_tensor *x, const char *call)
{
    bool grad = ph_tape_set_grad_enabled(tape, false);
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *shown = x->count > WHOLE_COUNT ? edges_of(tape, x, p->cut) : x;
    ph_status status = shown ? PH_OK : ph_tape_status(tape);
    if (status == PH_OK) {
        p->shape = shown->shape;
        p->dtype = shown->dtype;
        p->data = *out = ph__alloc(ph_tensor_bytes(shown));
        status = *out ? ph_tensor_read(tape, shown, *out, ph_tensor_bytes(shown))
                      : ph__fail_host_memory(call, "the elements of a tensor");
    }
    ph_tape_scope_end(tape, mark, NULL, 0);
    (void)ph_tape_set_grad_enabled(tape, grad);
    return status;
}

ph_status ph_tensor_format(char **out, ph_tape *tape, const ph_tensor *x)
{
    static const char call[] = "ph_tensor_format";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!tape)
        return ph__fail_null(call, "tape");
    PH_TRY(ph__tape_refuse(tape, call));
    ph_status status = x ? ph__refuse_in_capture(tape, call) : ph__fail_null(call, "x");
    if (status == PH_OK && ph__tensor_is_overwritten(x))
        status = ph__fail_overwritten(x, call, "the tensor");
    if (status == PH_OK && x->storage->backend != tape->backend)
        status = ph_fail(PH_ERROR_WRONG_DEVICE, "%s: the tensor is of another device than the tape",
                         call);
    printer p = {.width = 0};
    char *data = NULL;
    if (status == PH_OK)
        status = read_data(&data, &p, tape, (ph_tensor *)x, call);
    if (status == PH_OK) {
        *out = print_tensor(&p, x);
        status = *out ? PH_OK : ph__fail_host_memory(call, "the text of a tensor");
    }
    ph__free(data);
    ph_tape_check(tape, status);
    return ph__tape_report(tape, status);
}

/* SPDX-License-Identifier: MIT */
/* inspect/verify_say.c: what a verification found, in words. */
#include "base/line.h"
#include "inspect/verify.h"
#include <string.h>

static void add(const ph__verify *verify, const char *format, ...) PH_PRINTF(2, 3);
static void add(const ph__verify *verify, const char *format, ...)
{
    char *message = verify->out->message;
    size_t used = strlen(message), size = sizeof verify->out->message;
    va_list args;
    if (size - used < 8)
        return;
    va_start(args, format);
    ph__line_vformat(message + used, size - used, format, args);
    va_end(args);
}

/* ---- a node ---- */
static void add_pair(const ph__verify *verify, const ph_annotation_pair *pair)
{
    switch (pair->type) {
    case PH_ANNOTATION_INTEGER:
        add(verify, "%s: %lld", pair->key, (long long)pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        add(verify, "%s: %g", pair->key, pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        add(verify, "%s: %s", pair->key, pair->boolean ? "true" : "false");
        break;
    default:
        add(verify, "%s: %s", pair->key, pair->text ? pair->text : "");
        break;
    }
}

static void add_node(const ph__verify *verify, size_t node)
{
    const ph_annotation_pair *pairs = NULL;
    size_t count = 0;
    ph_error saved;
    ph__error_save(&saved);
    add(verify, "node %zu (%s)", node, verify->graph->record->nodes[node].info.name);
    if (ph_record_annotation(&pairs, &count, verify->graph->record, node) != PH_OK)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        add(verify, "%s", i ? ", " : " {");
        add_pair(verify, &pairs[i]);
    }
    if (count)
        add(verify, "}");
    ph__error_restore(&saved);
}

/* ---- a place ---- */
/* The node's parameter that the address is behind. */
static const char *parameter_of(const ph__verify *verify, size_t node, const ph__difference *difference)
{
    const char *best = NULL;
    uint64_t highest = 0;
    if (node == SIZE_MAX)
        return NULL;
    const ph__record_node *at = &verify->graph->record->nodes[node];
    for (size_t i = 0; i < at->kept_count; i++) {
        ph_word room;
        const ph_word *word = ph__record_kept(&room, at, i);
        if (word->kind != PH_WORD_VALUE && word->value <= difference->address &&
            word->value >= difference->kept->base && (best == NULL || word->value > highest)) {
            best = word->name;
            highest = word->value;
        }
    }
    return best;
}

static void add_place(const ph__verify *verify, size_t node, const ph__difference *difference)
{
    ph_allocation block = {.base = NULL};
    const char *parameter = parameter_of(verify, node, difference);
    if (parameter)
        add(verify, "parameter %s, ", parameter);
    if (ph__verify_find_block(&block, verify, difference->address))
        add(verify, "byte %zu of the %zu %s at %p", (size_t)(difference->address - (uintptr_t)block.base),
            block.requested, difference->kept->own ? "that the capture was given" : "allocated", block.base);
    else
        add(verify, "at %p", (void *)difference->address);
}

/* ---- values ---- */
static void add_value(const ph__verify *verify, const ph__difference *difference, const unsigned char *bytes)
{
    const ph_verify_output *output = ph__verify_output_at(verify, difference->address);
    add(verify, "0x");
    for (size_t i = difference->size; i-- > 0;)
        add(verify, "%02x", bytes[i]);
    if (output && ph__number_size(output->type) == difference->size)
        add(verify, " (%.9g)", ph__number_value(bytes, output->type));
}

static void add_output(const ph__verify *verify, const ph__difference *difference)
{
    const ph_verify_output *output = ph__verify_output_at(verify, difference->address);
    if (output == NULL)
        return;
    if (output->name)
        add(verify, "output \"%s\"", output->name);
    else
        add(verify, "output %zu", (size_t)(output - verify->options->outputs));
    add(verify, "[%zu], ",
        (difference->address - (uintptr_t)output->address) / ph__number_size(output->type));
}

static void add_values(const ph__verify *verify, size_t node, const ph__difference *difference,
                       const char *one, const char *two)
{
    add_output(verify, difference);
    add_place(verify, node, difference);
    add(verify, ", is ");
    add_value(verify, difference, difference->a);
    add(verify, " %s, ", one);
    add_value(verify, difference, difference->b);
    add(verify, " %s (%zu of %zu %s%s differ%s)", two, difference->different, difference->compared,
        difference->output ? "number" : "byte", difference->compared == 1 ? "" : "s",
        difference->different == 1 ? "s" : "");
}

void ph__verify_say(const ph__verify *verify, ph_verify_verdict verdict, size_t node,
                    const ph__difference *difference, const ph__verify_words *words)
{
    ph_verify_result *out = verify->out;
    out->verdict = verdict;
    out->node = node;
    out->address = (const void *)difference->address;
    out->different = difference->different;
    out->compared = difference->compared;
    if (node != SIZE_MAX) {
        add_node(verify, node);
        add(verify, " %s: ", words->lead);
    } else {
        add(verify, "%s: ",
            verdict == PH_VERIFY_ORDER          ? "replays are not the same each time"
            : verdict == PH_VERIFY_BODY_DIFFERS ? "an eager run changes what no node of the graph does"
                                                : "results differ, and no single node shows it");
    }
    add_values(verify, node, difference, words->one, words->two);
}

/* ---- eager runs that differ ---- */
void ph__verify_add_race(const ph__verify *verify, const ph__race *race)
{
    const ph__record_node *nodes = verify->graph->record->nodes;
    if (race->one == SIZE_MAX)
        return;
    add(verify,
        "; node %zu (%s) %s and node %zu (%s) %s both address the %zu bytes at %p, with no "
        "path between them in the record",
        race->one, nodes[race->one].info.name, race->first, race->two, nodes[race->two].info.name,
        race->second, race->block.requested, race->block.base);
    if (race->proved)
        add(verify, "; one after another, which of the two is first decides the result");
}

void ph__verify_say_unsteady(const ph__verify *verify, const ph__race *race, const ph__difference *difference,
                             const ph__verify_words *words)
{
    ph_verify_result *out = verify->out;
    bool found = race->one != SIZE_MAX;
    out->verdict = found ? PH_VERIFY_ORDER : PH_VERIFY_EAGER_DIFFERS;
    out->node = race->two;
    out->address = (const void *)difference->address;
    out->different = difference->different;
    out->compared = difference->compared;
    add(verify, "%s: %s: ", words->lead,
        race->proved ? "a race (a missing ph_stream_wait_event)"
        : found      ? "a race (a missing ph_stream_wait_event), or a body that is not deterministic"
                     : "a body that is not deterministic, or a race (a missing ph_stream_wait_event)");
    add_values(verify, SIZE_MAX, difference, words->one, words->two);
    ph__verify_add_race(verify, race);
}

/* ---- what of a node changed ---- */
/* As a number of floating point too, where it looks like one. */
static void add_scalar(const ph__verify *verify, uint64_t value, unsigned first, unsigned bytes)
{
    uint64_t shown = bytes == 8 ? value : value >> 8 * first & UINT32_MAX;
    double number =
        ph__number_value((const char *)&value + first, bytes == 8 ? PH_NUMBER_F64 : PH_NUMBER_F32);
    double magnitude = number < 0 ? -number : number;
    add(verify, "0x%llx", (unsigned long long)shown);
    if (magnitude > 1e-12 && magnitude < 1e12)
        add(verify, " (%g)", number);
}

static void add_address(const ph__verify *verify, uint64_t value)
{
    ph_allocation block;
    add(verify, "0x%llx", (unsigned long long)value);
    if (ph__verify_find_block(&block, verify, (uintptr_t)value))
        add(verify, " (byte %zu of %zu)", (size_t)(value - (uintptr_t)block.base), block.requested);
}

/* How many bytes of the word are one number, from which on: of typed kernels known, of others guessed by what changed. */
static void find_number(unsigned *first, unsigned *bytes, const ph__record_node *node, const ph_word *a,
                        const ph_word *b)
{
    uint64_t changed = a->value ^ b->value;
    bool low = (changed & UINT32_MAX) != 0, high = changed >> 32 != 0,
         only_high = ((a->value | b->value) & UINT32_MAX) == 0;
    *first = low || only_high ? 0 : 4;
    *bytes = (low && high) || only_high ? 8 : 4;
    for (size_t i = 0; node->kernel && i < node->kernel->param_count; i++)
        if (node->kernel->params[i].offset == a->offset) {
            *first = 0;
            *bytes = node->kernel->params[i].size < 8 ? 4 : 8;
        }
}

static void add_word_change(const ph__verify *verify, const ph__record_node *node, const ph_word *a,
                            const ph_word *b)
{
    unsigned first, bytes;
    find_number(&first, &bytes, node, a, b);
    add(verify, "; parameter %s is ", a->name);
    if (a->kind == PH_WORD_VALUE && b->kind == PH_WORD_VALUE) {
        add_scalar(verify, a->value, first, bytes);
        add(verify, " in the graph and ");
        add_scalar(verify, b->value, first, bytes);
    } else {
        add_address(verify, a->value);
        add(verify, " in the graph and ");
        add_address(verify, b->value);
    }
    add(verify, " in the new capture");
}

static bool add_form_change(const ph__verify *verify, const ph_node_info *a, const ph_node_info *b)
{
    if (memcmp(a->grid, b->grid, sizeof a->grid) != 0)
        add(verify, "; its grid is %ux%ux%u in the graph and %ux%ux%u in the new capture", a->grid[0],
            a->grid[1], a->grid[2], b->grid[0], b->grid[1], b->grid[2]);
    else if (memcmp(a->block, b->block, sizeof a->block) != 0)
        add(verify, "; its blocks are %ux%ux%u in the graph and %ux%ux%u in the new capture", a->block[0],
            a->block[1], a->block[2], b->block[0], b->block[1], b->block[2]);
    else if (a->bytes != b->bytes)
        add(verify, "; it writes %zu bytes in the graph and %zu in the new capture", a->bytes, b->bytes);
    else if (a->value != b->value)
        add(verify, "; its value is 0x%x in the graph and 0x%x in the new capture", a->value, b->value);
    else
        return false;
    return true;
}

void ph__verify_add_change(const ph__verify *verify, size_t node)
{
    const ph__record_node *a = &verify->graph->record->nodes[node], *b = &verify->second->record->nodes[node];
    if (!verify->switches.on[node]) {
        add(verify, "; it is switched off (ph_graph_node_set_enabled)");
        return;
    }
    if (verify->graph->changed || verify->graph->slots) {
        add(verify, "; the graph's nodes may have other parameters than were captured (ph_graph_node_set_*, "
                    "ph_graph_update, slots)");
        return;
    }
    for (size_t i = 0; i < a->info.word_count && i < b->info.word_count; i++) {
        ph_word rooms[2];
        const ph_word *mine = ph__record_word(&rooms[0], a, i), *theirs = ph__record_word(&rooms[1], b, i);
        if (mine->value != theirs->value) {
            add_word_change(verify, a, mine, theirs);
            return;
        }
    }
    if (add_form_change(verify, &a->info, &b->info))
        return;
    add(verify,
        "; its parameters are the same in both: it is not deterministic, or reads what no parameter shows");
}

/* ---- other nodes ---- */
static bool is_structural(ph_change_kind kind)
{
    return kind <= PH_CHANGE_KERNEL || kind == PH_CHANGE_EDGE;
}

void ph__verify_say_capture(const ph__verify *verify, size_t node, const ph__difference *difference)
{
    ph_verify_result *out = verify->out;
    size_t one = verify->graph->record->node_count, two = verify->second->record->node_count;
    ph_diff *diff = NULL;
    ph_change change;
    ph_error saved;
    out->verdict = PH_VERIFY_CAPTURE_DIFFERS;
    out->node = node;
    out->address = (const void *)difference->address;
    ph__error_save(&saved);
    add(verify, "a capture of body made now is not of the same work (%zu node%s, the graph has %zu)", two,
        two == 1 ? "" : "s", one);
    if (ph_record_diff(&diff, verify->graph->record, verify->second->record) == PH_OK)
        for (size_t i = 0, said = 0; i < ph_diff_count(diff) && said < 3; i++)
            if (ph_diff_at(&change, diff, i) == PH_OK && is_structural(change.kind)) {
                add(verify, "%s%s", said++ ? "; " : ": ", change.text);
                if (out->node == SIZE_MAX)
                    out->node = change.a;
            }
    ph_diff_destroy(diff);
    ph__error_restore(&saved);
}

/* ---- what may be behind it ---- */
void ph__verify_add_hints(const ph__verify *verify)
{
    if (verify->missed)
        add(verify,
            "; the eager run asked for %zu block%s that the capture was not given, the first of %zu bytes",
            verify->missed, verify->missed == 1 ? "" : "s", verify->missed_bytes);
    if (!verify->prepared)
        add(verify,
            "; the graph has cells, such as states of generators: runs start from the same ones only with "
            "ph_verify_options.prepare");
}

/* ---- equal ---- */
static bool is_elsewhere(const ph__verify *verify, const ph_word *a, const ph_word *b)
{
    ph_allocation one, two;
    if (a->value == b->value || a->kind == PH_WORD_VALUE || b->kind == PH_WORD_VALUE)
        return false;
    if (a->kind == PH_WORD_PROVED && b->kind == PH_WORD_PROVED)
        return true;
    return ph__verify_find_block(&one, verify, (uintptr_t)a->value) &&
           ph__verify_find_block(&two, verify, (uintptr_t)b->value) && one.base != two.base;
}

/* An address that was baked, though what lies behind it gives the same. Executables that were changed have others than the record. */
static void add_other_address(const ph__verify *verify)
{
    const ph_graph *graph = verify->graph;
    bool same;
    if (graph->changed || graph->slots || ph__verify_first_change(&same, verify) != SIZE_MAX || !same)
        return;
    for (size_t n = 0; n < graph->record->node_count; n++) {
        const ph__record_node *a = &graph->record->nodes[n], *b = &verify->second->record->nodes[n];
        for (size_t i = 0; i < a->info.word_count && i < b->info.word_count; i++) {
            ph_word rooms[2];
            const ph_word *mine = ph__record_word(&rooms[0], a, i),
                          *theirs = ph__record_word(&rooms[1], b, i);
            if (!is_elsewhere(verify, mine, theirs))
                continue;
            add(verify, "; node %zu (%s) %s differs in a capture made now (", n, a->info.name, mine->name);
            add_address(verify, mine->value);
            add(verify, " in the graph, ");
            add_address(verify, theirs->value);
            add(verify, " now), with the same result from these contents");
            return;
        }
    }
}

void ph__verify_say_equal(const ph__verify *verify, const ph__difference *difference)
{
    ph_verify_result *out = verify->out;
    out->verdict = PH_VERIFY_EQUAL;
    out->compared = difference->compared;
    add(verify, "a replay gives what an eager run gives: %zu %s%s%s compared", difference->compared,
        verify->options->output_count ? "number" : "byte", difference->compared == 1 ? "" : "s",
        verify->options->output_count ? " of the outputs" : "");
    add_other_address(verify);
    if (verify->graph->cells && !verify->prepared)
        add(verify,
            "; with one poison alone, as the graph has cells and ph_verify_options.prepare is not set");
}

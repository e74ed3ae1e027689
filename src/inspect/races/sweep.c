/* SPDX-License-Identifier: MIT */
/* inspect/races/sweep.c: takes the accesses in the order of their nodes, and compares each with
 * the last ones of each chain in the parts of memory that both use. Parts are those of a segment
 * tree: an access is entered at the largest parts that it covers, and below which it lies. */
#include "inspect/races/sweep.h"
#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

/* The lists of a part. */
enum {
    COVER_READ,
    COVER_WRITE,
    INSIDE_READ,
    INSIDE_WRITE,
    LISTS
};
typedef struct part {
    uint32_t lists[LISTS];   /* the newest entry; 0: none */
    uint32_t asked, entered; /* 1 + the access that did so last */
} part;
typedef struct entry {
    uint32_t access, next;
} entry;

typedef struct sweep {
    ph__meetings *out;
    const ph__accesses *accesses;
    const ph__flat *flat;
    ph__clocks *clocks;
    uint64_t *bounds;
    size_t bound_count, leaves;
    part *parts;
    PH__VEC(entry) entries;
    uint32_t unused; /* entries that may be taken again */
    /* by chain: the scan that met it last, and whether that entry was declared */
    uint64_t *met;
    uint64_t scan;
    /* of the node at hand */
    ph__meeting here[PH__RACES_OF_NODE];
    size_t here_count, here_certain;
} sweep;

/* ---- parts ---- */
static int by_address(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool make_parts(sweep *s)
{
    size_t count = s->accesses->count, kept = 0;
    s->bounds = ph__alloc((2 * count + 1) * sizeof *s->bounds);
    if (s->bounds == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        s->bounds[2 * i] = s->accesses->at[i].begin;
        s->bounds[2 * i + 1] = s->accesses->at[i].end;
    }
    qsort(s->bounds, 2 * count, sizeof *s->bounds, by_address);
    for (size_t i = 0; i < 2 * count; i++)
        if (i == 0 || s->bounds[i] != s->bounds[kept - 1])
            s->bounds[kept++] = s->bounds[i];
    s->bound_count = kept;
    s->leaves = 1;
    while (s->leaves < kept)
        s->leaves *= 2;
    s->parts = ph__calloc(2 * s->leaves, sizeof *s->parts);
    s->met = ph__calloc((size_t)s->clocks->chain_count + 1, sizeof *s->met);
    return s->parts && s->met && ph__vec_push(&s->entries, ((entry){0, 0}));
}

static size_t leaf_at(const sweep *s, uint64_t bound)
{
    size_t low = 0, high = s->bound_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(s->bounds[middle] <= bound ? &low : &high) = middle;
    }
    return s->leaves + low;
}

/* ---- entries ---- */
static bool enter_access(sweep *s, uint32_t *list, uint32_t access)
{
    uint32_t at = s->unused;
    s->out->steps++;
    if (at) {
        s->unused = s->entries.at[at].next;
    } else {
        at = (uint32_t)s->entries.count;
        if (s->entries.count >= UINT32_MAX || !ph__vec_push(&s->entries, ((entry){0, 0})))
            return false;
    }
    s->entries.at[at] = (entry){access, *list};
    *list = at;
    return true;
}

static void drop_entry(sweep *s, uint32_t *link)
{
    uint32_t at = *link;
    *link = s->entries.at[at].next;
    s->entries.at[at].next = s->unused;
    s->unused = at;
}

/* A newer entry of the chain says as much to all later nodes: who comes behind that one comes
 * behind this one. */
static bool is_repeated(sweep *s, const ph__access *one)
{
    uint64_t *met = &s->met[s->clocks->chain[one->node]];
    bool met_here = *met / 2 == s->scan;
    if (met_here && (*met % 2 || !one->declared))
        return true;
    *met = 2 * s->scan + one->declared;
    return false;
}

/* ---- races ---- */
static bool is_certain(const sweep *s, const ph__access *one, const ph__access *two)
{
    const ph__flat_node *nodes = s->flat->nodes.at;
    return one->declared && two->declared && !(nodes[one->node].signals && nodes[two->node].waits);
}

static bool has_enough(const sweep *s)
{
    return s->here_certain == PH__RACES_CERTAIN_OF_NODE || s->here_count == PH__RACES_OF_NODE;
}

/* One for each pair of nodes, a certain one where there is any. */
static void note_pair(sweep *s, uint32_t one, uint32_t two)
{
    const ph__access *at = s->accesses->at;
    bool certain = is_certain(s, &at[one], &at[two]);
    for (size_t i = 0; i < s->here_count; i++) {
        ph__meeting *there = &s->here[i];
        if (at[there->first].node != at[one].node)
            continue;
        if (certain && !is_certain(s, &at[there->first], &at[there->second])) {
            *there = (ph__meeting){one, two};
            s->here_certain++;
        }
        return;
    }
    s->here[s->here_count++] = (ph__meeting){one, two};
    s->here_certain += certain;
}

/* covered: the access at hand will be found by all who look into this list. */
static void scan_list(sweep *s, uint32_t *list, uint32_t two, bool covered)
{
    const ph__access *at = s->accesses->at, *b = &at[two];
    s->scan++;
    for (uint32_t *link = list; *link && !has_enough(s);) {
        uint32_t one = s->entries.at[*link].access;
        const ph__access *a = &at[one];
        s->out->steps++;
        if (is_repeated(s, a)) {
            drop_entry(s, link);
            continue;
        }
        if (a->node != b->node) {
            if (!ph__clocks_order(s->clocks, a->node, b->node)) {
                note_pair(s, one, two);
            } else if (covered && b->writes >= a->writes && b->declared >= a->declared) {
                drop_entry(s, link);
                continue;
            }
        }
        link = &s->entries.at[*link].next;
    }
}

static void scan_lists(sweep *s, part *in, bool cover, uint32_t two, bool covered)
{
    scan_list(s, &in->lists[cover ? COVER_WRITE : INSIDE_WRITE], two, covered);
    if (s->accesses->at[two].writes)
        scan_list(s, &in->lists[cover ? COVER_READ : INSIDE_READ], two, covered);
}

/* ---- one access ---- */
/* A part that the access covers: what lies in it, and what covers it. */
static void ask_part(sweep *s, size_t i, uint32_t access)
{
    scan_lists(s, &s->parts[i], true, access, true);
    scan_lists(s, &s->parts[i], false, access, true);
    for (i /= 2; i > 0 && s->parts[i].asked != access + 1; i /= 2) {
        s->parts[i].asked = access + 1;
        scan_lists(s, &s->parts[i], true, access, false);
    }
}

static bool enter_part(sweep *s, size_t i, uint32_t access)
{
    bool writes = s->accesses->at[access].writes;
    if (!enter_access(s, &s->parts[i].lists[writes ? COVER_WRITE : COVER_READ], access))
        return false;
    for (i /= 2; i > 0 && s->parts[i].entered != access + 1; i /= 2) {
        s->parts[i].entered = access + 1;
        if (!enter_access(s, &s->parts[i].lists[writes ? INSIDE_WRITE : INSIDE_READ], access))
            return false;
    }
    return true;
}

static bool visit_access(sweep *s, uint32_t access, bool entering)
{
    size_t low = leaf_at(s, s->accesses->at[access].begin),
           high = leaf_at(s, s->accesses->at[access].end);
    for (; low < high; low /= 2, high /= 2) {
        size_t parts[2], count = 0;
        if (low & 1)
            parts[count++] = low++;
        if (high & 1)
            parts[count++] = --high;
        for (size_t i = 0; i < count; i++) {
            if (!entering)
                ask_part(s, parts[i], access);
            else if (!enter_part(s, parts[i], access))
                return false;
        }
    }
    return true;
}

/* ---- one node ---- */
static bool keep_here(sweep *s)
{
    const ph__access *at = s->accesses->at;
    for (size_t i = 0; i < s->here_count; i++) {
        ph__meeting meeting = s->here[i];
        bool kept = true;
        s->out->found++;
        if (is_certain(s, &at[meeting.first], &at[meeting.second]))
            kept =
                s->out->certain.count == PH__RACES_KEPT || ph__vec_push(&s->out->certain, meeting);
        else
            kept = s->out->possible.count == PH__RACES_KEPT ||
                   ph__vec_push(&s->out->possible, meeting);
        if (!kept)
            return false;
    }
    s->here_count = s->here_certain = 0;
    return true;
}

static bool sweep_nodes(sweep *s)
{
    uint32_t count = (uint32_t)s->accesses->count;
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && s->accesses->at[end].node == s->accesses->at[first].node;
             end++)
            (void)visit_access(s, end, false);
        for (uint32_t i = first; i < end; i++)
            if (!visit_access(s, i, true))
                return false;
        if (!keep_here(s))
            return false;
    }
    return true;
}

bool ph__races_sweep(ph__meetings *out, const ph__accesses *accesses, const ph__flat *flat,
                     ph__clocks *clocks)
{
    sweep s = {.out = out, .accesses = accesses, .flat = flat, .clocks = clocks};
    *out = (ph__meetings){0};
    bool done = accesses->count < 2 ||
                (accesses->count < UINT32_MAX / 4 && make_parts(&s) && sweep_nodes(&s));
    ph__free(s.bounds);
    ph__free(s.parts);
    ph__free(s.met);
    ph__vec_free(&s.entries);
    return done;
}

void ph__meetings_free(ph__meetings *meetings)
{
    ph__vec_free(&meetings->certain);
    ph__vec_free(&meetings->possible);
}

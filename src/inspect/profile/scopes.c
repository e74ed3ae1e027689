/* SPDX-License-Identifier: MIT */
/* inspect/profile/scopes.c: nodes with equal annotations taken together. */
#include "inspect/profile/scopes.h"
#include "device/annotate/pairs.h"
#include "inspect/profile/profile.h"
#include <stdlib.h>
#include <string.h>

static bool same_pairs(const ph_profile_scope *scope, const ph_annotation_pair *pairs, size_t count)
{
    if (scope->pair_count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!ph__pair_same(&scope->pairs[i], &pairs[i]))
            return false;
    return true;
}

/* FNV-1a; of reals and integers the bytes. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_pairs(const ph_annotation_pair *pairs, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        const ph_annotation_pair *pair = &pairs[i];
        hash = hash_bytes(hash, pair->key, strlen(pair->key) + 1);
        if (pair->type == PH_ANNOTATION_TEXT && pair->text)
            hash = hash_bytes(hash, pair->text, strlen(pair->text) + 1);
        else if (pair->type == PH_ANNOTATION_INTEGER)
            hash = hash_bytes(hash, &pair->integer, sizeof pair->integer);
        else if (pair->type == PH_ANNOTATION_REAL)
            hash = hash_bytes(hash, &pair->real, sizeof pair->real);
        else
            hash = hash_bytes(hash, &pair->boolean, sizeof pair->boolean);
    }
    return hash ? hash : 1;
}

static char *put_text(char **at, const char *text)
{
    size_t length = strlen(text) + 1;
    char *copy = memcpy(*at, text, length);
    *at += length;
    return copy;
}

/* NULL: no host memory. */
static ph_annotation_pair *copy_pairs(const ph_annotation_pair *pairs, size_t count)
{
    size_t bytes = count * sizeof *pairs;
    for (size_t i = 0; i < count; i++)
        bytes +=
            strlen(pairs[i].key) + 1 +
            (pairs[i].type == PH_ANNOTATION_TEXT && pairs[i].text ? strlen(pairs[i].text) + 1 : 0);
    ph_annotation_pair *copy = ph__alloc(bytes + 1);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + count);
    for (size_t i = 0; i < count; i++) {
        copy[i] = pairs[i];
        copy[i].key = put_text(&at, pairs[i].key);
        copy[i].text = pairs[i].type == PH_ANNOTATION_TEXT && pairs[i].text
                           ? put_text(&at, pairs[i].text)
                           : NULL;
    }
    return copy;
}

static bool add_scope(ph_profile *profile, const ph_annotation_pair *pairs, size_t count,
                      size_t next)
{
    ph_annotation_pair *copy = copy_pairs(pairs, count);
    ph__profile_scope scope = {.info = {.pairs = count > 0 ? copy : NULL, .pair_count = count},
                               .pairs = copy,
                               .next = next};
    if (copy && ph__vec_push(&profile->scopes, scope))
        return true;
    ph__free(copy);
    return false;
}

/* by_hash: the last scope of each hash, counted from 1; SIZE_MAX: no host memory. */
static size_t find_scope(ph_profile *profile, ph__map *by_hash, const ph_annotation_pair *pairs,
                         size_t count)
{
    uint64_t hash = hash_pairs(pairs, count);
    uintptr_t known = (uintptr_t)ph__map_get(by_hash, hash);
    size_t newest = known ? (size_t)known - 1 : SIZE_MAX;
    for (size_t s = newest; s != SIZE_MAX; s = profile->scopes.at[s].next)
        if (same_pairs(&profile->scopes.at[s].info, pairs, count))
            return s;
    if (!ph__map_reserve(by_hash, 1) || !add_scope(profile, pairs, count, newest))
        return SIZE_MAX;
    /* room was reserved */
    (void)ph__map_put(by_hash, hash, (void *)(uintptr_t)profile->scopes.count);
    return profile->scopes.count - 1;
}

/* Neighbours mostly have the very same annotation, so that few are compared. */
bool ph__profile_collect_scopes(ph_profile *profile, const ph_record *record)
{
    ph__map by_hash = {0};
    const ph_annotation_pair *last_pairs = NULL;
    size_t last = SIZE_MAX, last_count = 0;
    for (size_t n = 0; n < profile->count; n++) {
        const ph_annotation_pair *pairs;
        size_t count;
        if (ph_record_annotation(&pairs, &count, record, n) != PH_OK)
            count = 0; /* cannot be: the node exists */
        if (last == SIZE_MAX || pairs != last_pairs || count != last_count)
            last = find_scope(profile, &by_hash, pairs, count);
        if (last == SIZE_MAX)
            break;
        last_pairs = pairs;
        last_count = count;
        profile->nodes[n].scope = last;
    }
    ph__map_free(&by_hash);
    return last != SIZE_MAX || profile->count == 0;
}

typedef struct order {
    uint64_t work_ns;
    size_t scope;
} order;

static int compare_orders(const void *a, const void *b)
{
    const order *x = a, *y = b;
    if (x->work_ns != y->work_ns)
        return x->work_ns < y->work_ns ? 1 : -1;
    return (x->scope > y->scope) - (x->scope < y->scope);
}

bool ph__profile_sum_scopes(ph_profile *profile)
{
    for (size_t n = 0; n < profile->count; n++) {
        const ph__profile_node *node = &profile->nodes[n];
        ph_profile_scope *scope = &profile->scopes.at[node->scope].info;
        scope->node_count++;
        scope->work_ns += node->info.median_ns;
        scope->critical_ns += node->info.critical ? node->info.median_ns : 0;
    }
    size_t count = profile->scopes.count;
    order *orders = ph__calloc(count + 1, sizeof *orders);
    profile->sorted = ph__calloc(count + 1, sizeof *profile->sorted);
    bool ok = orders && profile->sorted;
    for (size_t s = 0; ok && s < count; s++)
        orders[s] = (order){profile->scopes.at[s].info.work_ns, s};
    if (ok && count > 0)
        qsort(orders, count, sizeof *orders, compare_orders);
    for (size_t s = 0; ok && s < count; s++)
        profile->sorted[s] = orders[s].scope;
    ph__free(orders);
    return ok;
}

void ph__profile_free_scopes(ph_profile *profile)
{
    for (size_t s = 0; s < profile->scopes.count; s++)
        ph__free(profile->scopes.at[s].pairs);
    ph__vec_free(&profile->scopes);
    ph__free(profile->sorted);
}

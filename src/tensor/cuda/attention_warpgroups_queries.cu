/* SPDX-License-Identifier: MIT */
/* cuda/attention_warpgroups_queries.cu: the passes over blocks of queries by warpgroups: the
 * forward pass, and the gradient of q. Behind cuda/attention_products.cu, cuda/attention_tiles.cu
 * and cuda/attention_warpgroups.cu. */
/* Two places for what scores need: keys, and values in the gradient. Three for the turned tile
 * whose product comes a piece later: values, or keys in the gradient. */
#ifdef FORWARD
#define PLACE TILE
#else
#define PLACE (2 * TILE)
#endif
#define TURNED (2 * PLACE)
#define MINE   (TURNED + 3 * TILE)

#ifdef QUERIES
/* delta of the warp's 16 rows from `first` on, eight at a time, of which all loads are on their way
 * before the first sum: to memory, and to `out`. */
__device__ __forceinline__ void sum_deltas(f32 *out, f32 *delta, const T *o, i64 o_t, const T *g,
                                           i64 g_t, u32 first, u32 tq, u32 d)
{
    const u32 lane = threadIdx.x % 32;
#pragma unroll 1
    for (u32 base = 0; base < 16 && first + base < tq; base += 8) {
        f32 part[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 at = first + base + i < tq ? first + base + i : tq - 1;
            const T *x = o + at * o_t, *y = g + at * g_t;
            part[i] = 0;
#pragma unroll
            for (u32 c = lane; c < D; c += 32) {
                const u32 place = c < d ? c : 0;
                const f32 product = x[place] * y[place];
                part[i] += c < d ? product : 0;
            }
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            part[i] = ph_warp_sum(part[i]);
            if (lane == i && first + base + i < tq)
                delta[first + base + i] = out[base + i] = part[i];
        }
    }
    __syncwarp();
}
#endif

/* Scores that a row does not see become `hidden`: those of keys from seen[0] (row g) or seen[1]
 * (row g + 8) of the piece on. */
__device__ __forceinline__ void hide(f32 (&s)[8][4], const i32 (&seen)[2], f32 hidden)
{
    const i32 t = threadIdx.x % 4;
#pragma unroll
    for (i32 j = 0; j < 8; j++)
#pragma unroll
        for (i32 e = 0; e < 4; e++)
            if (8 * j + 2 * t + e % 2 >= seen[e / 2])
                s[j][e] = hidden;
}
__device__ __forceinline__ void times(f32 (&s)[8][4], f32 factor)
{
#pragma unroll
    for (u32 i = 0; i < 32; i++)
        s[i / 4][i % 4] *= factor;
}

#ifdef FORWARD
/* Scores to weights; `most` and `total` go on with them, the sums are to be times `shrink`. */
__device__ __forceinline__ void weigh(f32 (&s)[8][4], f32 (&shrink)[2], f32 (&most)[2],
                                      f32 (&total)[2], f32 size)
{
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        f32 high = -PH_INFINITY, all = 0;
#pragma unroll
        for (u32 j = 0; j < 8; j++)
            high = fmaxf(high, fmaxf(s[j][2 * e], s[j][2 * e + 1]));
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
        high = fmaxf(most[e], high * size);
        const f32 base = high == -PH_INFINITY ? 0 : high;
        shrink[e] = power_of_two(most[e] - base);
        most[e] = high;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            s[j][2 * e] = power_of_two(fmaf(s[j][2 * e], size, -base));
            s[j][2 * e + 1] = power_of_two(fmaf(s[j][2 * e + 1], size, -base));
            all += s[j][2 * e] + s[j][2 * e + 1];
        }
        total[e] = total[e] * shrink[e] + all;
    }
}
#endif

/* Pieces that the rows from `group` on see, as far as they are a worker's. A causal row i sees
 * i + more keys. */
__device__ __forceinline__ u32 count_pieces(u32 group, u32 tq, u32 tk, i64 more, bool causal)
{
    const i64 last = (i64)group + 63 < tq ? (i64)group + 63 : (i64)tq - 1,
              end = causal && last + more < tk ? last + more : (i64)tk;
    return group < tq && end > 0 ? (u32)((end + STEP - 1) / STEP) : 0;
}
__device__ __forceinline__ void bring(unsigned char *places, const u32 (&counts)[2], const T *keys,
                                      i64 k_t, const T *values, i64 v_t, u32 tk, u32 d,
                                      bool vectors)
{
    const u32 pieces = counts[0] > counts[1] ? counts[0] : counts[1];
    piece next_k, next_v;
    for (u32 n = 0; n < pieces; n++) {
        const i64 from = (i64)n * STEP;
        const u32 place = n % 2;
        unsigned char *to = places + place * PLACE, *turned = places + TURNED + n % 3 * TILE;
        load_piece(next_k, keys + from * k_t, k_t, (i64)tk - from, d, vectors);
        load_piece(next_v, values + from * v_t, v_t, (i64)tk - from, d, vectors);
        for (u32 w = 0; w < 2; w++)
            if (n >= 2 && n - 2 < counts[w])
                meet(EMPTY + 2 * place + w, 256);
#ifdef FORWARD
        store_piece(to, nullptr, next_k);
        store_piece(nullptr, turned, next_v);
#else
        store_piece(to, turned, next_k);
        store_piece(to + TILE, nullptr, next_v);
#endif
        publish();
        for (u32 w = 0; w < 2; w++)
            if (n < counts[w])
                announce(FULL + 2 * place + w, 256);
    }
}

PH_KERNEL __launch_bounds__(THREADS, 1) KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32,
              worker = warp / 4, tiles = (tq + OWN_ROWS - 1) / OWN_ROWS, groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / heads, head = index % heads,
              kv_head = head / (heads / kv_heads);
    const u32 first = (tiles - 1 - blockIdx.x / groups) * OWN_ROWS;
    const i64 row = (i64)index * tq, more = (i64)tk - (i64)tq + 1;
    const u32 counts[2] = {count_pieces(first, tq, tk, more, causal),
                           count_pieces(first + 64, tq, tk, more, causal)};
    unsigned char *places = shared + (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024,
                  *own = places + MINE;
#ifdef QUERIES
    __shared__ f32 deltas[OWN_ROWS];
#endif
    if (worker == 2) {
        need_few_registers();
#ifdef QUERIES
        if (!dq)
            return;
#endif
        bring(places, counts, k + batch * k_b + kv_head * k_h, k_t, v + batch * v_b + kv_head * v_h,
              v_t, tk, d, vectors);
        return;
    }
    need_many_registers();
    /* the worker's rows, the warp's */
    const u32 group = first + worker * 64, mine = first + warp * 16,
              count = worker ? counts[1] : counts[0],
              pieces = counts[0] > counts[1] ? counts[0] : counts[1];
    const f32 factor = (f32)(scale * LOG2_E);
    unsigned char *rows_of_q = own + worker * 64 * 128;
    fetch_own(rows_of_q, q + batch * q_b + head * q_h + group * q_t, q_t, (i64)tq - group, d,
              vectors);
#ifdef QUERIES
    fetch_own(rows_of_q + OWN_ROWS * 256, g + batch * g_b + head * g_h + group * g_t, g_t,
              (i64)tq - group, d, vectors);
    sum_deltas(deltas + warp * 16, delta + row, o + batch * o_b + head * o_h, o_t,
               g + batch * g_b + head * g_h, g_t, mine, tq, d);
    if (!dq)
        return;
    f32 my_lse[2], my_delta[2];
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        const u32 i = lane / 4 + 8 * e;
        const f32 l = mine + i < tq ? lse[row + mine + i] : -PH_INFINITY;
        my_lse[e] = l == -PH_INFINITY ? PH_INFINITY : l * LOG2_E;
        my_delta[e] = mine + i < tq ? deltas[warp * 16 + i] : 0;
    }
#else
    f32 most[2] = {-PH_INFINITY, -PH_INFINITY}, total[2] = {0, 0};
#endif
    publish();
    meet(OWN + worker, 128);
    const u64 my_q = describe((u32)__cvta_generic_to_shared(rows_of_q));
    /* the first key that the warp's first row does not see, or that is not there */
    const i64 limit = causal && mine + more < tk ? mine + more : (i64)tk;
    f32 sum[8][4], s[8][4];
    u32 mix[8][4];
    zero(sum);
#ifdef QUERIES
    f32 ds[8][4];
    const f32 slope = factor == 0 ? 1 : factor;
#else
    f32 shrink[2];
#endif
    /* of piece n */
    const auto begin_scores = [&](u32 n) {
        const u64 tile = describe((u32)__cvta_generic_to_shared(places + n % 2 * PLACE));
        begin_rows(s, my_q, tile);
#ifdef QUERIES
        begin_rows(ds, my_q + OWN_ROWS * 256 / 16, tile + TILE / 16);
#endif
    };
    const auto begin_sums = [&](u32 n) {
        begin_mix(sum, mix,
                  describe((u32)__cvta_generic_to_shared(places + TURNED + n % 3 * TILE)));
    };
    const auto weigh_scores = [&](u32 n) {
        const i64 from = (i64)n * STEP;
        /* A factor of 0 would make NaN of a hidden key's infinity: the products become 0
         * instead. */
#ifdef FORWARD
        if (factor <= 0)
            times(s, factor < 0 ? -1.0f : 0.0f);
        const f32 hidden = -PH_INFINITY;
#else
        if (factor == 0)
            times(s, 0.0f);
        const f32 hidden = factor < 0 ? PH_INFINITY : -PH_INFINITY;
#endif
        if (from + STEP > limit) {
            i32 seen[2];
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                const i64 there = tk - from, x = mine + more - from + lane / 4 + 8 * e,
                          y = causal && x < there ? x : there;
                seen[e] = y < 0 ? 0 : y < STEP ? (i32)y : STEP;
            }
            hide(s, seen, hidden);
        }
#ifdef FORWARD
        weigh(s, shrink, most, total, factor == 0 ? 1 : fabsf(factor));
#else
#pragma unroll
        for (u32 i = 0; i < 32; i++)
            s[i / 4][i % 4] = power_of_two(s[i / 4][i % 4] * slope - my_lse[i % 4 / 2]);
#endif
    };
#ifdef QUERIES
    const auto slopes_of_scores = [&]() {
#pragma unroll
        for (u32 i = 0; i < 32; i++)
            ds[i / 4][i % 4] = s[i / 4][i % 4] * (ds[i / 4][i % 4] - my_delta[i % 4 / 2]);
    };
#endif
    if (count > 0) {
        meet(FULL + worker, 256);
        pin(s);
#ifdef FORWARD
        start();
        begin_scores(0);
        finish_products<0>();
        pin(s);
        weigh_scores(0);
        round_weights(mix, s);
#else
        pin(ds);
        start();
        begin_scores(0);
        finish_products<0>();
        pin(s);
        pin(ds);
        weigh_scores(0);
        slopes_of_scores();
        round_sums(mix, ds);
#endif
        if (2 < pieces)
            announce(EMPTY + worker, 256);
    }
    for (u32 n = 1; n < count; n++) {
        meet(FULL + 2 * (n % 2) + worker, 256);
        pin(s);
        pin(sum);
#ifdef FORWARD
        start();
        begin_scores(n);
        begin_sums(n - 1);
        finish_products<1>();
        pin(s);
        weigh_scores(n);
        pin(s);
        finish_products_here<0>(causal);
        pin(sum);
        if (n + 2 < pieces)
            announce(EMPTY + 2 * (n % 2) + worker, 256);
        /* a new maximum is rare */
        if (__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1))
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                sum[i / 4][i % 4] *= shrink[i % 4 / 2];
        round_weights(mix, s);
#else
        pin(ds);
        start();
        begin_scores(n);
        begin_sums(n - 1);
        finish_products<2>();
        pin(s);
        weigh_scores(n);
        pin(s);
        finish_products_here<1>(causal);
        pin(ds);
        slopes_of_scores();
        pin(ds);
        finish_products_here<0>(causal);
        pin(sum);
        if (n + 2 < pieces)
            announce(EMPTY + 2 * (n % 2) + worker, 256);
        round_sums(mix, ds);
#endif
    }
    if (count > 0) {
        pin(sum);
        start();
        begin_sums(count - 1);
        finish_products<0>();
        pin(sum);
    }
    const i64 valid = (i64)tq - mine;
#ifdef FORWARD
    f32 inverse[2];
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        f32 all = total[e];
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        inverse[e] = all == 0 ? 0 : 1 / all;
        const u32 i = lane / 4 + 8 * e;
        if (lane % 4 == 0 && i < valid)
            lse[row + mine + i] = all == 0 ? -PH_INFINITY : most[e] * LN_2 + logf(all);
    }
    put_sums(o + batch * o_b + head * o_h + mine * o_t, o_t, sum, inverse[0], inverse[1], valid, d);
#else
    put_sums(dq + batch * dq_b + head * dq_h + mine * dq_t, dq_t, sum, (f32)scale, (f32)scale,
             valid, d);
#endif
}

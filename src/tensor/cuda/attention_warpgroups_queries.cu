/* SPDX-License-Identifier: MIT */
/* cuda/attention_warpgroups_queries.cu: the passes over blocks of queries by warpgroups: the
 * forward pass, and the gradient of q. Behind cuda/attention_products.cu, cuda/attention_tiles.cu
 * and cuda/attention_warpgroups.cu. The next piece is loaded into registers while one is computed,
 * and stored while the last product runs. */
#ifdef FORWARD
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef OWN
#define OWN held_rows
#endif
#define PLACE (2 * TILE) /* keys, straight; values, turned */
#else
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef OWN
#define OWN held_rows
#endif
#define PLACE (3 * TILE) /* keys, straight and turned; values, straight */
#endif

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
/* Scores to weights; `most`, `total` and the sums go on with them. */
__device__ __forceinline__ void weigh(f32 (&s)[8][4], f32 (&sum)[8][4], f32 (&most)[2],
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
        const f32 base = high == -PH_INFINITY ? 0 : high, shrink = power_of_two(most[e] - base);
        most[e] = high;
#pragma unroll
        for (u32 j = 0; j < 8; j++) {
            s[j][2 * e] = power_of_two(fmaf(s[j][2 * e], size, -base));
            s[j][2 * e + 1] = power_of_two(fmaf(s[j][2 * e + 1], size, -base));
            all += s[j][2 * e] + s[j][2 * e + 1];
        }
        total[e] = total[e] * shrink + all;
        /* a new maximum is rare */
        if (__any_sync(0xffffffffu, shrink != 1))
#pragma unroll
            for (u32 j = 0; j < 8; j++) {
                sum[j][2 * e] *= shrink;
                sum[j][2 * e + 1] *= shrink;
            }
    }
}
#endif

PH_KERNEL __launch_bounds__(THREADS, BLOCKS) KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32,
              tiles = (tq + ROWS - 1) / ROWS, groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / heads, head = index % heads,
              kv_head = head / (heads / kv_heads);
    /* of the block, of the warpgroup, of the warp */
    const u32 first = (tiles - 1 - blockIdx.x / groups) * ROWS, group = first + warp / 4 * 64,
              mine = first + warp * 16;
    /* a causal row i sees i + more keys */
    const i64 row = (i64)index * tq, more = (i64)tk - (i64)tq + 1;
    const i64 last = first + ROWS < tq ? first + ROWS : tq,
              end = causal && last - 1 + more < tk ? last - 1 + more : (i64)tk;
    const u32 pieces = end > 0 ? (u32)((end + STEP - 1) / STEP) : 0;
    const f32 factor = (f32)(scale * LOG2_E);
    const T *keys = k + batch * k_b + kv_head * k_h, *values = v + batch * v_b + kv_head * v_h;
    unsigned char *places = shared + (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024,
                  *own = places + 2 * PLACE;
    fetch_own(own, q + batch * q_b + head * q_h + first * q_t, q_t, (i64)tq - first, d, vectors);
#ifdef QUERIES
    fetch_own(own + ROWS * 256, g + batch * g_b + head * g_h + first * g_t, g_t, (i64)tq - first, d,
              vectors);
    __shared__ f32 deltas[ROWS];
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
#endif
    block next_k, next_v;
    const auto load_piece = [&](u32 piece) {
        const i64 from = (i64)piece * STEP;
        load(next_k, keys + from * k_t, k_t, (i64)tk - from, d, vectors);
        load(next_v, values + from * v_t, v_t, (i64)tk - from, d, vectors);
    };
    const auto store_piece = [&](u32 piece) {
        unsigned char *to = places + piece % 2 * PLACE;
        round_all(next_k);
        round_all(next_v);
        put_straight(to, PART, next_k);
#ifdef FORWARD
        put_turned(to + TILE, next_v);
#else
        put_turned(to + TILE, next_k);
        put_straight(to + 2 * TILE, PART, next_v);
#endif
        publish();
    };
    if (pieces > 0) {
        load_piece(0);
        store_piece(0);
    }
    __syncthreads();
    OWN rows_q;
    hold(rows_q, own);
#ifdef FORWARD
    f32 most[2] = {-PH_INFINITY, -PH_INFINITY}, total[2] = {0, 0};
#else
    OWN rows_g;
    hold(rows_g, own + ROWS * 256);
#endif
    f32 sum[8][4];
    zero(sum);
    for (u32 piece = 0; piece < pieces; piece++) {
        const u32 tile = (u32)__cvta_generic_to_shared(places + piece % 2 * PLACE);
        const i64 from = (i64)piece * STEP;
        const bool more_pieces = piece + 1 < pieces;
        if (more_pieces)
            load_piece(piece + 1);
        if (group < tq && (!causal || from < (i64)group + 63 + more)) {
            f32 s[8][4];
            u32 mix[8][4];
            /* of the piece, by the warp's first row and by any row */
            const i64 sees = causal ? mine + more - from : STEP, there = tk - from;
            const bool hides = sees < STEP || there < STEP;
            i32 seen[2];
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                const i64 x = causal ? sees + lane / 4 + 8 * e : STEP, y = x < there ? x : there;
                seen[e] = y < 0 ? 0 : y < STEP ? (i32)y : STEP;
            }
#ifdef FORWARD
            pin(s);
            start();
            begin_rows(s, rows_q, tile);
            finish_products<0>();
            pin(s);
            /* A factor of 0 would make NaN of a hidden key's infinity: the products become 0
             * instead. */
            if (factor <= 0)
                times(s, factor < 0 ? -1.0f : 0.0f);
            if (hides)
                hide(s, seen, -PH_INFINITY);
            weigh(s, sum, most, total, factor == 0 ? 1 : fabsf(factor));
            round_weights(mix, s);
            pin(sum);
            start();
            begin_mix(sum, mix, tile + TILE);
#else
            f32 ds[8][4];
            pin(s);
            pin(ds);
            start();
            begin_rows(s, rows_q, tile);
            begin_rows(ds, rows_g, tile + 2 * TILE);
            finish_products<1>();
            pin(s);
            if (factor == 0)
                times(s, 0.0f);
            if (hides)
                hide(s, seen, factor < 0 ? PH_INFINITY : -PH_INFINITY);
            const f32 slope = factor == 0 ? 1 : factor;
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                s[i / 4][i % 4] = power_of_two(s[i / 4][i % 4] * slope - my_lse[i % 4 / 2]);
            pin(s);
            finish_products_here<0>(causal);
            pin(ds);
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                ds[i / 4][i % 4] = s[i / 4][i % 4] * (ds[i / 4][i % 4] - my_delta[i % 4 / 2]);
            round_sums(mix, ds);
            pin(sum);
            start();
            begin_mix(sum, mix, tile + TILE);
#endif
            /* nobody reads the other place since the barrier */
            if (more_pieces)
                store_piece(piece + 1);
            finish_products<0>();
            pin(sum);
        } else if (more_pieces) {
            store_piece(piece + 1);
        }
        __syncthreads();
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

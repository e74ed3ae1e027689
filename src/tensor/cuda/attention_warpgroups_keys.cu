/* SPDX-License-Identifier: MIT */
/* cuda/attention_warpgroups_keys.cu: the gradients of keys and values by warpgroups: sums over the
 * queries of all heads that share them. Behind cuda/attention_products.cu, cuda/attention_tiles.cu
 * and cuda/attention_warpgroups.cu. Scores are transposed: keys are rows. */
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef OWN
#define OWN kept_rows
#endif
#define PLACE (4 * TILE) /* queries and their gradients, straight and turned */

PH_KERNEL __launch_bounds__(THREADS, BLOCKS) KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32,
              tiles = (tk + ROWS - 1) / ROWS, groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / kv_heads, kv_head = index % kv_heads,
              members = heads / kv_heads;
    const u32 first = blockIdx.x / groups * ROWS, group = first + warp / 4 * 64,
              mine = first + warp * 16;
    /* the first query that sees a key of the block */
    const i64 more = (i64)tk - (i64)tq + 1, sees = causal ? (i64)first - more + 1 : 0;
    const u32 begin = sees > 0 ? (u32)(sees / STEP) : 0, end = (tq + STEP - 1) / STEP,
              each = begin < end ? end - begin : 0, steps = each * members;
    const f32 factor = (f32)(scale * LOG2_E);
    unsigned char *places = shared + (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024,
                  *own = places + 2 * PLACE;
    /* lse and delta of a piece's queries, of two pieces */
    __shared__ f32 numbers[4 * STEP];
    block next_q, next_g;
    f32 next_lse = 0, next_delta = 0;
    const auto load_queries = [&](u32 step) {
        const u32 head = kv_head * members + step / each, from = (begin + step % each) * STEP;
        const i64 row = ((i64)batch * heads + head) * tq;
        load(next_q, q + batch * q_b + head * q_h + from * q_t, q_t, (i64)tq - from, d, vectors);
        load(next_g, g + batch * g_b + head * g_h + from * g_t, g_t, (i64)tq - from, d, vectors);
        if (threadIdx.x < STEP) {
            const u32 i = from + threadIdx.x;
            next_lse = i < tq ? lse[row + i] : -PH_INFINITY;
            next_delta = i < tq ? delta[row + i] : 0;
        }
    };
    /* The numbers: in powers of two, and so that missing rows count nothing. */
    const auto store_queries = [&](u32 step) {
        unsigned char *to = places + step % 2 * PLACE;
        round_all(next_q);
        put_straight(to, PART, next_q);
        put_turned(to + TILE, next_q);
        round_all(next_g);
        put_straight(to + 2 * TILE, PART, next_g);
        put_turned(to + 3 * TILE, next_g);
        if (threadIdx.x < STEP) {
            f32 *number = numbers + step % 2 * 2 * STEP + threadIdx.x;
            number[0] = next_lse == -PH_INFINITY ? PH_INFINITY : next_lse * LOG2_E;
            number[STEP] = next_delta;
        }
        publish();
    };
    f32 sum_k[8][4], sum_v[8][4];
    zero(sum_k);
    zero(sum_v);
    fetch_own(own, k + batch * k_b + kv_head * k_h + first * k_t, k_t, (i64)tk - first, d, vectors);
    fetch_own(own + ROWS * 256, v + batch * v_b + kv_head * v_h + first * v_t, v_t, (i64)tk - first,
              d, vectors);
    publish();
    if (steps > 0) {
        load_queries(0);
        store_queries(0);
    }
    __syncthreads();
    OWN rows_k, rows_v;
    hold(rows_k, own);
    hold(rows_v, own + ROWS * 256);
    for (u32 step = 0; step < steps; step++) {
        const bool more_steps = step + 1 < steps;
        const u32 tile = (u32)__cvta_generic_to_shared(places + step % 2 * PLACE);
        const f32 *lses = numbers + step % 2 * 2 * STEP + lane % 4 * 2, *deltas = lses + STEP;
        const i64 from = (i64)(begin + step % each) * STEP;
        if (more_steps)
            load_queries(step + 1);
        if (group < tk && (!causal || group < from + STEP - 1 + more)) {
            f32 s[8][4], ds[8][4];
            u32 mix[8][4], mix_ds[8][4];
            /* the first query of the piece that sees the lane's key */
            const i64 sees = causal ? mine + lane / 4 - more + 1 - from : 0;
            const bool hides = causal && (i64)mine + 15 >= from + more;
            pin(s);
            pin(ds);
            start();
            begin_rows(s, rows_k, tile);
            begin_rows(ds, rows_v, tile + 2 * TILE);
            finish_products<1>();
            pin(s);
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                s[i / 4][i % 4] = power_of_two(s[i / 4][i % 4] * factor - lses[i / 4 * 8 + i % 2]);
            if (hides) {
                const i32 seen = sees < -8 ? -8 : sees < STEP ? (i32)sees : STEP;
#pragma unroll
                for (i32 i = 0; i < 32; i++)
                    if (i / 4 * 8 + (i32)(lane % 4) * 2 + i % 2 < seen + i % 4 / 2 * 8)
                        s[i / 4][i % 4] = 0;
            }
            pin(s);
            finish_products_here<0>(causal);
            pin(ds);
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                ds[i / 4][i % 4] = s[i / 4][i % 4] * (ds[i / 4][i % 4] - deltas[i / 4 * 8 + i % 2]);
            round_sums(mix, s);
            round_sums(mix_ds, ds);
            pin(sum_v);
            pin(sum_k);
            start();
            begin_mix(sum_v, mix, tile + 3 * TILE);
            begin_mix(sum_k, mix_ds, tile + TILE);
            /* nobody reads the other place since the barrier */
            if (more_steps)
                store_queries(step + 1);
            finish_products<0>();
            pin(sum_v);
            pin(sum_k);
        } else if (more_steps) {
            store_queries(step + 1);
        }
        __syncthreads();
    }
    const i64 valid = (i64)tk - mine;
    put_sums(dk + batch * dk_b + kv_head * dk_h + mine * dk_t, dk_t, sum_k, (f32)scale, (f32)scale,
             valid, d);
    put_sums(dv + batch * dv_b + kv_head * dv_h + mine * dv_t, dv_t, sum_v, 1, 1, valid, d);
}

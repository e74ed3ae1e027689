/* SPDX-License-Identifier: MIT */
/* cuda/attention_keys.cu: the pass of tiled attention that makes the gradients of keys and values.
 * Behind cuda/attention_products.cu and cuda/attention_tiles.cu; see cuda/attention.cu. */
/* ---- blocks of keys ---- the gradients of k and v: sums over the queries of all heads that
 * share them. Tiles are transposed: keys are rows. */
PH_KERNEL BOUNDS KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (tk + ROWS - 1) / ROWS,
              groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / kv_heads, kv_head = index % kv_heads,
              members = heads / kv_heads;
    const u32 first = blockIdx.x / groups * ROWS, mine = first + warp * 16;
    /* the first query that sees a key of the block */
    const i64 more = (i64)tk - (i64)tq + 1, sees = causal ? (i64)first - more + 1 : 0;
    const u32 begin = sees > 0 ? (u32)(sees / PIECE) : 0, end = (tq + PIECE - 1) / PIECE,
              each = begin < end ? end - begin : 0;
    const f32 factor = (f32)(scale * LOG2_E);
    T *tile_k = (T *)shared, *tile_v = tile_k + ROWS * LD, *stage = tile_v + ROWS * LD;
    /* lse and delta of a piece's queries, of two pieces */
    f32 *numbers = (f32 *)(stage + 4 * PIECE * LD);
#ifdef MATH_tf32
    chunks<PIECE> next_q, next_g;
    f32 next_lse = 0, next_delta = 0;
    const auto load_queries = [&](u32 step) {
        const u32 head = kv_head * members + step / each, from = (begin + step % each) * PIECE;
        const i64 row = ((i64)batch * heads + head) * tq;
        load(next_q, q + batch * q_b + head * q_h + from * q_t, q_t, (i64)tq - from, d, vectors);
        load(next_g, g + batch * g_b + head * g_h + from * g_t, g_t, (i64)tq - from, d, vectors);
        if (threadIdx.x < PIECE) {
            const u32 i = from + threadIdx.x;
            next_lse = i < tq ? lse[row + i] : -PH_INFINITY;
            next_delta = i < tq ? delta[row + i] : 0;
        }
    };
    /* The numbers: in powers of two, and so that missing rows count nothing. */
    const auto store_queries = [&](u32 step) {
        T *to = stage + step % 2 * 2 * PIECE * LD;
        store(to, next_q);
        store(to + PIECE * LD, next_g);
        if (threadIdx.x < PIECE) {
            f32 *number = numbers + step % 2 * 2 * PIECE + threadIdx.x;
            number[0] = next_lse == -PH_INFINITY ? PH_INFINITY : next_lse * LOG2_E;
            number[PIECE] = next_delta;
        }
    };
#else
    const auto fetch_queries = [&](u32 step) {
        const u32 head = kv_head * members + step / each, from = (begin + step % each) * PIECE;
        const i64 row = ((i64)batch * heads + head) * tq;
        T *to = stage + step % 2 * 2 * PIECE * LD;
        fetch(to, q + batch * q_b + head * q_h + from * q_t, q_t, PIECE, (i64)tq - from, d,
              vectors);
        fetch(to + PIECE * LD, g + batch * g_b + head * g_h + from * g_t, g_t, PIECE,
              (i64)tq - from, d, vectors);
        if (threadIdx.x < PIECE) {
            f32 *number = numbers + step % 2 * 2 * PIECE + threadIdx.x;
            const u32 i = from + threadIdx.x;
            fetch_number(number, lse + row + (i < tq ? i : 0), i < tq);
            fetch_number(number + PIECE, delta + row + (i < tq ? i : 0), i < tq);
        }
        commit();
    };
    /* Each thread prepares the numbers that it has fetched: in powers of two, and so that missing
     * rows count nothing. */
    const auto prepare_numbers = [&](u32 step) {
        if (threadIdx.x < PIECE) {
            f32 *number = numbers + step % 2 * 2 * PIECE + threadIdx.x;
            const f32 l = *number;
            const bool there =
                (begin + step % each) * PIECE + threadIdx.x < tq && l != -PH_INFINITY;
            *number = there ? l * LOG2_E : PH_INFINITY;
        }
    };
#endif
    f32 sum_k[D / 8][4], sum_v[D / 8][4];
    clear(sum_k);
    clear(sum_v);
    fetch_rows(tile_k, k + batch * k_b + kv_head * k_h + first * k_t, k_t, (i64)tk - first, d,
               vectors);
    fetch_rows(tile_v, v + batch * v_b + kv_head * v_h + first * v_t, v_t, (i64)tk - first, d,
               vectors);
    held rows_k, rows_v;
    const u32 steps = each * members;
#ifdef MATH_tf32
    if (steps > 0) {
        load_queries(0);
        store_queries(0);
    }
#else
    if (steps > 0)
        fetch_queries(0);
#endif
    for (u32 step = 0; step < steps; step++) {
        const bool more_steps = step + 1 < steps;
#ifdef MATH_tf32
        if (more_steps)
            load_queries(step + 1);
#else
        if (more_steps) {
            fetch_queries(step + 1);
            finish<1>();
        } else {
            finish<0>();
        }
        prepare_numbers(step);
#endif
        __syncthreads();
        if (step == 0) {
            hold(rows_k, tile_k + warp * 16 * LD);
            hold(rows_v, tile_v + warp * 16 * LD);
        }
        const T *tile_q = stage + step % 2 * 2 * PIECE * LD, *tile_g = tile_q + PIECE * LD;
        const f32 *lses = numbers + step % 2 * 2 * PIECE, *deltas = lses + PIECE;
        const i64 from = (i64)(begin + step % each) * PIECE;
        if (mine < tk && (!causal || mine < from + PIECE - 1 + more)) {
            f32 s[PIECE / 8][4], ds[PIECE / 8][4];
            clear(s);
            clear(ds);
            multiply_rows(s, rows_k, tile_q);
            multiply_rows(ds, rows_v, tile_g);
            const bool hides = causal && (i64)mine + 15 >= from + more;
#pragma unroll
            for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) {
                    const u32 i = 8 * j + lane % 4 * 2 + e % 2;
                    s[j][e] = power_of_two(s[j][e] * factor - lses[i]);
                    if (hides && (i64)mine + lane / 4 + e / 2 * 8 >= from + i + more)
                        s[j][e] = 0;
                    ds[j][e] = s[j][e] * (ds[j][e] - deltas[i]);
                }
            multiply_mix(sum_v, s, tile_g);
            multiply_mix(sum_k, ds, tile_q);
        }
#ifdef MATH_tf32
        /* nobody reads the other place since the barrier */
        if (more_steps)
            store_queries(step + 1);
#else
        __syncthreads();
#endif
    }
    const i64 valid = (i64)tk - mine;
    put_rows(dk + batch * dk_b + kv_head * dk_h + mine * dk_t, dk_t, sum_k, (f32)scale, (f32)scale,
             valid, d);
    put_rows(dv + batch * dv_b + kv_head * dv_h + mine * dv_t, dv_t, sum_v, 1, 1, valid, d);
}

/* SPDX-License-Identifier: MIT */
/* cuda/attention.cu: attention by tiles, after "FlashAttention-2: Faster Attention with Better
 * Parallelism and Work Partitioning" (Dao 2023): the values between the two products never leave
 * the registers. Behind cuda/attention_products.cu and cuda/attention_tiles.cu.
 * - A block of four warps keeps 64 rows, 16 a warp, and goes through the rows
 *   of the other side in pieces. The next piece is fetched while one is computed: for TF32 through
 *   registers, so that a number is rounded once, and not by each warp that multiplies it. */
/* ---- blocks of queries ---- of the forward pass, and of the gradient of q. */
PH_KERNEL BOUNDS KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (tq + ROWS - 1) / ROWS,
              groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / heads, head = index % heads,
              kv_head = head / (heads / kv_heads);
    /* of the block, of the warp */
    const u32 first = (tiles - 1 - blockIdx.x / groups) * ROWS, mine = first + warp * 16;
    /* a causal row i sees i + more keys */
    const i64 row = (i64)index * tq, more = (i64)tk - (i64)tq + 1;
    const i64 last = first + ROWS < tq ? first + ROWS : tq,
              end = causal && last - 1 + more < tk ? last - 1 + more : (i64)tk;
    const u32 pieces = end > 0 ? (u32)((end + PIECE - 1) / PIECE) : 0;
    const f32 factor = (f32)(scale * LOG2_E);
    const T *keys = k + batch * k_b + kv_head * k_h, *values = v + batch * v_b + kv_head * v_h;
    T *tile_q = (T *)shared, *stage = tile_q + ROWS * LD;
#ifdef QUERIES
    T *tile_g = stage;
    stage += ROWS * LD;
    __shared__ f32 deltas[ROWS];
    fetch_rows(tile_g, g + batch * g_b + head * g_h + first * g_t, g_t, (i64)tq - first, d,
               vectors);
#endif
    fetch_rows(tile_q, q + batch * q_b + head * q_h + first * q_t, q_t, (i64)tq - first, d,
               vectors);
    /* keys and values of a piece into one of the two places */
#ifdef MATH_tf32
    chunks<PIECE> next_k, next_v;
    const auto load_piece = [&](u32 piece) {
        const i64 from = (i64)piece * PIECE;
        load(next_k, keys + from * k_t, k_t, (i64)tk - from, d, vectors);
        load(next_v, values + from * v_t, v_t, (i64)tk - from, d, vectors);
    };
    const auto store_piece = [&](u32 piece) {
        T *to = stage + piece % 2 * 2 * PIECE * LD;
        store(to, next_k);
        store(to + PIECE * LD, next_v);
    };
    if (pieces > 0) {
        load_piece(0);
        store_piece(0);
    }
#else
    const auto fetch_piece = [&](u32 piece) {
        const i64 from = (i64)piece * PIECE;
        T *to = stage + piece % 2 * 2 * PIECE * LD;
        fetch(to, keys + from * k_t, k_t, PIECE, (i64)tk - from, d, vectors);
        fetch(to + PIECE * LD, values + from * v_t, v_t, PIECE, (i64)tk - from, d, vectors);
        commit();
    };
    if (pieces > 0)
        fetch_piece(0);
    else
        commit();
#endif
    f32 sum[D / 8][4];
    clear(sum);
    held rows_q;
#ifdef FORWARD
    f32 most[2] = {-PH_INFINITY, -PH_INFINITY}, total[2] = {0, 0};
#else
    held rows_g;
    f32 my_lse[2], my_delta[2];
    /* Eight rows at a time, of which all loads are on their way before the first sum. */
#pragma unroll 1
    for (u32 base = 0; base < 16 && mine + base < tq; base += 8) {
        f32 part[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            const u32 at = mine + base + i < tq ? mine + base + i : tq - 1;
            const T *x = o + batch * o_b + head * o_h + at * o_t,
                    *y = g + batch * g_b + head * g_h + at * g_t;
            part[i] = 0;
#pragma unroll
            for (u32 c = lane; c < D; c += 32) {
                const u32 place = c < d ? c : 0;
                const f32 product = ph_get(x + place) * ph_get(y + place);
                part[i] += c < d ? product : 0;
            }
        }
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            part[i] = ph_warp_sum(part[i]);
            if (lane == i && mine + base + i < tq)
                delta[row + mine + base + i] = deltas[warp * 16 + base + i] = part[i];
        }
    }
    if (!dq) {
        finish<0>();
        return;
    }
    __syncwarp();
#pragma unroll
    for (u32 e = 0; e < 2; e++) {
        u32 i = lane / 4 + 8 * e;
        f32 l = mine + i < tq ? lse[row + mine + i] : -PH_INFINITY;
        my_lse[e] = l == -PH_INFINITY ? PH_INFINITY : l * LOG2_E;
        my_delta[e] = mine + i < tq ? deltas[warp * 16 + i] : 0;
    }
#endif
    for (u32 piece = 0; piece < pieces; piece++) {
        T *tile_k = stage + piece % 2 * 2 * PIECE * LD, *tile_v = tile_k + PIECE * LD;
        const i64 from = (i64)piece * PIECE;
        const bool more_pieces = piece + 1 < pieces;
#ifdef MATH_tf32
        if (more_pieces)
            load_piece(piece + 1);
#else
        if (more_pieces) {
            fetch_piece(piece + 1);
            finish<1>();
        } else {
            finish<0>();
        }
#endif
        __syncthreads();
        if (piece == 0) {
            hold(rows_q, tile_q + warp * 16 * LD);
#ifdef QUERIES
            hold(rows_g, tile_g + warp * 16 * LD);
#endif
        }
        if (mine < tq && (!causal || from < (i64)mine + 15 + more)) {
            f32 s[PIECE / 8][4];
            clear(s);
            multiply_rows(s, rows_q, tile_k);
            const i64 seen = causal ? mine + more : (i64)tk; /* by the warp's first row */
            /* A factor of 0 would make NaN of a hidden key's infinity: the products become 0
             * instead. */
#ifdef FORWARD
            if (factor <= 0)
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++)
                        s[j][e] *= factor < 0 ? -1.0f : 0.0f;
            const f32 size = factor == 0 ? 1 : fabsf(factor);
            const bool flipped = false;
#else
            if (factor == 0)
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++)
                        s[j][e] *= 0.0f;
            const f32 slope = factor == 0 ? 1 : factor;
            const bool flipped = factor < 0;
#endif
            if (from + PIECE > seen || from + PIECE > tk) {
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                    for (u32 e = 0; e < 4; e++) {
                        i64 key = from + 8 * j + lane % 4 * 2 + e % 2,
                            mine_sees = seen + (causal ? lane / 4 + e / 2 * 8 : 0);
                        if (key >= mine_sees || key >= tk)
                            s[j][e] = flipped ? PH_INFINITY : -PH_INFINITY;
                    }
            }
#ifdef FORWARD
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                f32 high = -PH_INFINITY, all = 0;
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++)
                    high = fmaxf(high, fmaxf(s[j][2 * e], s[j][2 * e + 1]));
                high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
                high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
                high = fmaxf(most[e], high * size);
                f32 base = high == -PH_INFINITY ? 0 : high, shrink = power_of_two(most[e] - base);
                most[e] = high;
#pragma unroll
                for (u32 j = 0; j < PIECE / 8; j++) {
                    s[j][2 * e] = power_of_two(fmaf(s[j][2 * e], size, -base));
                    s[j][2 * e + 1] = power_of_two(fmaf(s[j][2 * e + 1], size, -base));
                    all += s[j][2 * e] + s[j][2 * e + 1];
                }
                total[e] = total[e] * shrink + all;
#pragma unroll
                for (u32 j = 0; j < D / 8; j++) {
                    sum[j][2 * e] *= shrink;
                    sum[j][2 * e + 1] *= shrink;
                }
            }
            multiply_mix(sum, s, tile_v);
#else
            f32 ds[PIECE / 8][4];
            clear(ds);
            multiply_rows(ds, rows_g, tile_v);
#pragma unroll
            for (u32 j = 0; j < PIECE / 8; j++)
#pragma unroll
                for (u32 e = 0; e < 4; e++)
                    ds[j][e] = power_of_two(s[j][e] * slope - my_lse[e / 2]) *
                               (ds[j][e] - my_delta[e / 2]);
            multiply_mix(sum, ds, tile_k);
#endif
        }
#ifdef MATH_tf32
        /* nobody reads the other place since the barrier */
        if (more_pieces)
            store_piece(piece + 1);
#else
        __syncthreads();
#endif
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
        u32 i = lane / 4 + 8 * e;
        if (lane % 4 == 0 && i < valid)
            lse[row + mine + i] = all == 0 ? -PH_INFINITY : most[e] * LN_2 + logf(all);
    }
    put_rows(o + batch * o_b + head * o_h + mine * o_t, o_t, sum, inverse[0], inverse[1], valid, d);
#else
    put_rows(dq + batch * dq_b + head * dq_h + mine * dq_t, dq_t, sum, (f32)scale, (f32)scale,
             valid, d);
#endif
}

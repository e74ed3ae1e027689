/* SPDX-License-Identifier: MIT */
/* cuda/attention_warpgroups_keys.cu: the gradients of keys and values by warpgroups: sums over the
 * queries of all heads that share them. Behind cuda/attention_products.cu, cuda/attention_tiles.cu
 * and cuda/attention_warpgroups.cu. Scores are transposed: keys are rows. */
#define PLACE (4 * TILE) /* queries and their gradients, straight and turned */

/* Of a piece's queries. */
struct place {
    f32 lse[STEP], delta[STEP];
};

PH_KERNEL __launch_bounds__(THREADS, 1) KERNEL(PARAMETERS)
{
    PH_WAIT();
    const u32 warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32,
              worker = warp / 4, tiles = (tk + OWN_ROWS - 1) / OWN_ROWS, groups = gridDim.x / tiles;
    const u32 index = blockIdx.x % groups, batch = index / kv_heads, kv_head = index % kv_heads,
              members = heads / kv_heads;
    const u32 first = blockIdx.x / groups * OWN_ROWS;
    /* the first query that sees a key of the block */
    const i64 more = (i64)tk - (i64)tq + 1, sees = causal ? (i64)first - more + 1 : 0;
    const u32 begin = sees > 0 ? (u32)(sees / STEP) : 0, end = (tq + STEP - 1) / STEP,
              each = begin < end ? end - begin : 0, steps = each * members;
    unsigned char *places = shared + (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024,
                  *own = places + 2 * PLACE;
    __shared__ place numbers[2];
    if (worker == 2) {
        need_few_registers();
        piece next_q, next_g;
        u32 head = kv_head * members, at = begin;
        for (u32 step = 0; step < steps; step++) {
            const u32 from = at * STEP, i = from + threadIdx.x % 64;
            unsigned char *to = places + step % 2 * PLACE;
            const i64 row = ((i64)batch * heads + head) * tq;
            load_piece(next_q, q + batch * q_b + head * q_h + from * q_t, q_t, (i64)tq - from, d,
                       vectors);
            load_piece(next_g, g + batch * g_b + head * g_h + from * g_t, g_t, (i64)tq - from, d,
                       vectors);
            const bool upper = threadIdx.x / 64 % 2;
            f32 number = upper ? 0 : -PH_INFINITY;
            if (i < tq)
                number = upper ? delta[row + i] : lse[row + i];
            for (u32 w = 0; w < 2 && step >= 2; w++)
                meet(EMPTY + 2 * (step % 2) + w, 256);
            store_piece(to, to + TILE, next_q);
            store_piece(to + 2 * TILE, to + 3 * TILE, next_g);
            /* in powers of two, and so that missing rows count nothing */
            if (!upper)
                number = number == -PH_INFINITY ? PH_INFINITY : number * LOG2_E;
            (upper ? numbers[step % 2].delta : numbers[step % 2].lse)[threadIdx.x % 64] = number;
            publish();
            for (u32 w = 0; w < 2; w++)
                announce(FULL + 2 * (step % 2) + w, 256);
            if (++at == end) {
                at = begin;
                head++;
            }
        }
        return;
    }
    need_many_registers();
    /* the worker's rows, the warp's */
    const u32 group = first + worker * 64, mine = first + warp * 16;
    const f32 factor = (f32)(scale * LOG2_E);
    unsigned char *rows_of_k = own + worker * 64 * 128;
    f32 sum_k[8][4], sum_v[8][4];
    zero(sum_k);
    zero(sum_v);
    fetch_own(rows_of_k, k + batch * k_b + kv_head * k_h + group * k_t, k_t, (i64)tk - group, d,
              vectors);
    fetch_own(rows_of_k + OWN_ROWS * 256, v + batch * v_b + kv_head * v_h + group * v_t, v_t,
              (i64)tk - group, d, vectors);
    publish();
    meet(OWN + worker, 128);
    const u64 my_k = describe((u32)__cvta_generic_to_shared(rows_of_k));
    /* the first query that sees the warp's first key, its last one, and a key of the worker */
    const i64 sees_first = causal ? mine - more + 1 : 0, sees_last = causal ? sees_first + 15 : 0,
              sees_any = group >= tk ? (i64)tq
                         : causal    ? group - more + 1
                                     : 0;
    u32 at = begin;
    for (u32 step = 0; step < steps; step++) {
        const u32 place = step % 2;
        const i64 from = (i64)at * STEP;
        at = at + 1 == end ? begin : at + 1;
        meet(FULL + 2 * place + worker, 256);
        if (sees_any < from + STEP) {
            const u64 tile = describe((u32)__cvta_generic_to_shared(places + place * PLACE));
            const f32 *lses = numbers[place].lse + lane % 4 * 2,
                      *deltas = numbers[place].delta + lane % 4 * 2;
            f32 s[8][4], ds[8][4];
            u32 mix[8][4], mix_ds[8][4];
            pin(s);
            pin(ds);
            start();
            begin_rows(s, my_k, tile);
            begin_rows(ds, my_k + OWN_ROWS * 256 / 16, tile + 2 * TILE / 16);
            finish_products<1>();
            pin(s);
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                s[i / 4][i % 4] = power_of_two(s[i / 4][i % 4] * factor - lses[i / 4 * 8 + i % 2]);
            if (sees_last > from) {
                const i64 sees = sees_first + lane / 4 - from;
                const i32 seen = sees < -8 ? -8 : sees < STEP ? (i32)sees : STEP;
#pragma unroll
                for (i32 i = 0; i < 32; i++)
                    if (i / 4 * 8 + (i32)(lane % 4) * 2 + i % 2 < seen + i % 4 / 2 * 8)
                        s[i / 4][i % 4] = 0;
            }
            round_sums(mix, s);
            pin(s);
            pin(sum_v);
            start();
            begin_mix(sum_v, mix, tile + 3 * TILE / 16);
            finish_products_here<1>(causal);
            pin(ds);
#pragma unroll
            for (u32 i = 0; i < 32; i++)
                ds[i / 4][i % 4] = s[i / 4][i % 4] * (ds[i / 4][i % 4] - deltas[i / 4 * 8 + i % 2]);
            round_sums(mix_ds, ds);
            pin(sum_k);
            start();
            begin_mix(sum_k, mix_ds, tile + TILE / 16);
            finish_products<0>();
            pin(sum_v);
            pin(sum_k);
        }
        if (step + 2 < steps)
            announce(EMPTY + 2 * place + worker, 256);
    }
    const i64 valid = (i64)tk - mine;
    put_sums(dk + batch * dk_b + kv_head * dk_h + mine * dk_t, dk_t, sum_k, (f32)scale, (f32)scale,
             valid, d);
    put_sums(dv + batch * dv_b + kv_head * dv_h + mine * dv_t, dv_t, sum_v, 1, 1, valid, d);
}

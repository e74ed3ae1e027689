/* SPDX-License-Identifier: MIT */
/* tensor/products/products.c: what a device keeps for its products, and which of the two
 * libraries does one. */
#include "tensor/products/products.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/autograd/tape.h"

ph__products *ph__products_create(ph__backend *backend)
{
    ph__products *products = ph__calloc(1, sizeof *products);
    if (!products) {
        ph_ignore(ph__fail_host_memory("a matrix product", "the product library's state"));
        return NULL;
    }
    products->backend = backend;
    bool ready = backend->cuda || ph__blas_load();
    if (backend->cuda)
        ready = (products->cublas =
                     ph__cublas_create(backend->device, backend->info.multiprocessors)) != NULL;
    if (!ready) {
        ph__free(products);
        return NULL;
    }
    return products;
}

void ph__products_destroy(ph__products *products)
{
    if (!products)
        return;
    ph__cublas_destroy(products->cublas, products->backend->device);
    ph__free(products);
}

ph__products *ph__products_of(ph__backend *backend)
{
    ph__products *products = atomic_load_explicit(&backend->products, memory_order_acquire);
    if (products)
        return products;
    pthread_mutex_lock(&backend->lock);
    products = atomic_load_explicit(&backend->products, memory_order_relaxed);
    if (!products) {
        products = ph__products_create(backend);
        atomic_store_explicit(&backend->products, products, memory_order_release);
    }
    pthread_mutex_unlock(&backend->lock);
    return products;
}

void ph__products_expect(ph__backend *backend)
{
    if (!backend->cuda || atomic_load_explicit(&backend->had_tape, memory_order_relaxed) ||
        atomic_exchange_explicit(&backend->had_tape, true, memory_order_relaxed))
        return;
    ph_error saved;
    ph__error_save(&saved);
    ph_ignore(ph__workspaces_prepare(&backend->workspaces));
    ph__error_restore(&saved);
}

void ph__products_prepare(ph__backend *backend)
{
    ph_error saved;
    ph__error_save(&saved);
    (void)ph__products_of(backend);
    if (atomic_load_explicit(&backend->had_tape, memory_order_relaxed))
        ph_ignore(ph__workspaces_prepare(&backend->workspaces));
    ph__error_restore(&saved);
}

bool ph__op_product(ph__op *op, const ph__product *product)
{
    if (ph__tape_failed(op->tape))
        return false;
    if (product->m == 0 || product->n == 0 || product->batch == 0)
        return true;
    ph__backend *backend = op->tape->backend;
    ph__products *products = ph__products_of(backend);
    if (!products)
        return ph__op_check(op, ph_error_last()->status);
    return products->cublas ? ph__product_cuda(op, products->cublas, product)
                            : ph__product_host(op, product);
}

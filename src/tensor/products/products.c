/* SPDX-License-Identifier: MIT */
/* tensor/products/products.c: what a device keeps for its products, and which of the two
 * libraries does one. */
#include "tensor/products/products.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/products/products_cuda.h"
#include "tensor/products/products_host.h"
#include "tensor/products/products_workspace.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

static ph__products *create_products(ph__backend *backend)
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

static void destroy_products(ph__products *products)
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
        products = create_products(backend);
        atomic_store_explicit(&backend->products, products, memory_order_release);
    }
    pthread_mutex_unlock(&backend->lock);
    return products;
}

/* ---- a part of the backend ---- */
static ph_status create_part(ph__backend *backend, const char *call)
{
    backend->workspaces = ph__workspaces_create(backend->device);
    return backend->workspaces ? PH_OK
                               : ph__fail_host_memory(call, "the workspaces of captured products");
}

static void destroy_products_part(ph__backend *backend)
{
    destroy_products(atomic_load_explicit(&backend->products, memory_order_relaxed));
    ph__workspaces_destroy(backend->workspaces);
}

/* There is a tape, and so there may be products: a GPU's first one makes the workspaces of
 * captures. A failure is tried again before the next capture. */
static void expect_products(ph__backend *backend)
{
    ph_error saved;
    if (!backend->cuda)
        return;
    ph__error_save(&saved);
    ph_ignore(ph__workspaces_prepare(backend->workspaces));
    ph__error_restore(&saved);
}

/* Makes the objects beforehand that products of a capture would make inside it for the first time:
 * library, handle, and workspaces for streams to come where there was a tape. A failure is that of
 * the product that needs it, when there is one. */
static void prepare_products(ph__backend *backend)
{
    ph_error saved;
    ph__error_save(&saved);
    const ph__products *products = ph__products_of(backend);
    if (products && products->cublas)
        ph__cublas_expect_capture(products->cublas);
    if (backend->cuda && atomic_load_explicit(&backend->had_tape, memory_order_relaxed))
        ph_ignore(ph__workspaces_prepare(backend->workspaces));
    ph__error_restore(&saved);
}
PH__BACKEND_PART(.order = PH__BACKEND_PRODUCTS, .create = create_part,
                 .destroy = destroy_products_part, .expect = expect_products,
                 .before_capture = prepare_products)

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

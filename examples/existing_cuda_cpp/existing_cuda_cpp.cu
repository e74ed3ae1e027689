/* SPDX-License-Identifier: MIT */
/* existing_cuda_cpp: a CUDA program in C++ that adopts phonograph.
 *
 * It serves requests of 1 to 12 rows with three kernels, launched with <<<>>> as ever. The lines
 * marked with + turn each size into a graph. All twelve share a pool, as one runs at a time. It
 * serves 2000 requests both ways, wants the same bits, and prints the time of each.
 *
 * Build: nvcc -std=c++17 existing_cuda_cpp.cu $(pkg-config --cflags --libs phonograph) */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <phonograph/phonograph.hpp> // +
#include <vector>

constexpr int width = 256, most_rows = 12, requests = 2000;

static void check_cuda(cudaError_t status)
{
    if (status == cudaSuccess)
        return;
    std::fprintf(stderr, "existing_cuda_cpp: %s\n", cudaGetErrorString(status));
    std::exit(1);
}

/* ---- the kernels: a block for each row, a thread for each column ---- */
__global__ void multiply(float *out, const float *in, const float *weight)
{
    float sum = 0;
    for (int k = 0; k < width; k++)
        sum += in[blockIdx.x * width + k] * weight[k * width + threadIdx.x];
    out[blockIdx.x * width + threadIdx.x] = sum;
}

__global__ void activate(float *x)
{
    float &at = x[blockIdx.x * width + threadIdx.x];
    at = at > 0 ? at : 0.01f * at;
}

__global__ void normalize(float *out, const float *x)
{
    float most = 0;
    for (int k = 0; k < width; k++)
        most = fmaxf(most, fabsf(x[blockIdx.x * width + k]));
    const int at = blockIdx.x * width + threadIdx.x;
    out[at] = most > 0 ? x[at] / most : 0;
}

struct model {
    cudaStream_t stream;
    float *weight, *input, *output;
};

static void serve(const model &m, int rows, ph_stream *on)
{
    ph::buffer<float> hidden(std::size_t(rows) * width, on); // + in the place of cudaMallocAsync
    multiply<<<rows, width, 0, m.stream>>>(hidden.data(), m.input, m.weight);
    activate<<<rows, width, 0, m.stream>>>(hidden.data());
    normalize<<<rows, width, 0, m.stream>>>(m.output, hidden.data());
    check_cuda(cudaGetLastError());
}

static std::vector<float> make_numbers(std::size_t count, unsigned seed)
{
    std::vector<float> numbers(count);
    for (float &number : numbers) {
        seed = seed * 1664525u + 1013904223u;
        number = float(seed >> 8) / float(1 << 24) - 0.5f;
    }
    return numbers;
}

static float *upload(const std::vector<float> &numbers)
{
    float *at;
    check_cuda(cudaMalloc(&at, numbers.size() * sizeof(float)));
    check_cuda(
        cudaMemcpy(at, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice));
    return at;
}

/* Serves all requests, one after the other. Returns microseconds a request; adds the outputs'
 * bits to *bits. */
template <class Serve> static double run(const model &m, unsigned long long *bits, Serve serve_one)
{
    std::vector<unsigned> output(most_rows * width);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < requests; i++) {
        const int rows = 1 + i * 7 % most_rows;
        serve_one(rows);
        if (i % 100 == 99) {
            check_cuda(cudaMemcpyAsync(output.data(), m.output,
                                       std::size_t(rows) * width * sizeof(float),
                                       cudaMemcpyDeviceToHost, m.stream));
            check_cuda(cudaStreamSynchronize(m.stream));
            for (int k = 0; k < rows * width; k++)
                *bits = *bits * 31 + output[std::size_t(k)];
        }
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::micro>(spent).count() / requests;
}

static int serve_both_ways(const model &m)
{
    ph::device device("cuda");                                           // +
    ph::stream stream = ph::stream::wrap(m.stream);                      // +
    ph::pool pool(device);                                               // +
    ph::graph graphs[most_rows];                                         // +
    for (int rows = 1; rows <= most_rows; rows++)                        // +
        graphs[rows - 1].capture(stream, ph::capture_options().in(pool), // +
                                 [&] { serve(m, rows, stream); });       // +
    unsigned long long launched_bits = 0, replayed_bits = 0;
    const double launched = run(m, &launched_bits, [&](int rows) { serve(m, rows, stream); });
    const double replayed =
        run(m, &replayed_bits, [&](int rows) { graphs[rows - 1].replay(stream); }); // +
    std::printf("%d requests of 1 to %d rows: %.2f us each launched, %.2f us replayed\n", requests,
                most_rows, launched, replayed);
    std::printf("12 graphs in one pool of %.0f KiB; results %s\n",
                double(pool.stats().reserved) / 1024,
                launched_bits == replayed_bits ? "equal to the bit" : "DIFFER");
    return launched_bits == replayed_bits && launched_bits != 0 ? 0 : 1;
}

int main()
try {
    model m;
    check_cuda(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
    m.weight = upload(make_numbers(width * width, 1));
    m.input = upload(make_numbers(most_rows * width, 2));
    m.output = upload(make_numbers(most_rows * width, 3));
    const int status = serve_both_ways(m);
    check_cuda(cudaFree(m.weight));
    check_cuda(cudaFree(m.input));
    check_cuda(cudaFree(m.output));
    check_cuda(cudaStreamDestroy(m.stream));
    return status;
} catch (const ph::error &e) {
    std::fprintf(stderr, "existing_cuda_cpp: %s\n", e.what());
    return 1;
}

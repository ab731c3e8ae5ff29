// Runs a CUDA kernel on the CPU: one block after another, its threads as fibers that take turns. A barrier or a
// shuffle is where a fiber hands over, so all threads of a block have to come to the same ones in the same order.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

using std::erf;
using std::exp;
using std::expm1;
using std::fmax;
using std::fmin;
using std::log1p;
using std::tanh;

inline float rsqrt(float v) { return 1.0f / std::sqrt(v); }
inline double rsqrt(double v) { return 1.0 / std::sqrt(v); }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __int_as_float(uint32_t bits) {
    float v;
    std::memcpy(&v, &bits, 4);
    return v;
}

struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 v) { return __int_as_float(uint32_t(v.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
struct __half { _Float16 value; };
inline float __half2float(__half v) { return float(v.value); }
inline __half __float2half_rn(float v) { return {_Float16(v)}; }

namespace lockstep {
constexpr unsigned most = 1024;
static ucontext_t home, fibers[most];
static bool done[most];
static unsigned current;
static double slots[most];
static std::function<void()> body;

static void hand_over() { swapcontext(&fibers[current], &home); }

static void run_fiber() {
    body();
    done[current] = true;
    hand_over();
}

static void run_block(std::vector<std::vector<char>>& stacks) {
    const unsigned count = blockDim.x;
    for (unsigned t = 0; t < count; ++t) {
        done[t] = false;
        getcontext(&fibers[t]);
        fibers[t].uc_stack.ss_sp = stacks[t].data();
        fibers[t].uc_stack.ss_size = stacks[t].size();
        fibers[t].uc_link = &home;
        makecontext(&fibers[t], run_fiber, 0);
    }
    for (bool running = true; running;) {
        running = false;
        for (unsigned t = 0; t < count; ++t) {
            if (done[t]) continue;
            current = t;
            threadIdx = {t, 0, 0};
            swapcontext(&home, &fibers[t]);
            running |= !done[t];
        }
    }
}

static void launch(const unsigned* sizes, std::function<void()> kernel) {
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], 1, 1};
    body = kernel;
    std::vector<std::vector<char>> stacks(blockDim.x, std::vector<char>(1 << 15));
    for (unsigned y = 0; y < gridDim.y; ++y)
        for (unsigned x = 0; x < gridDim.x; ++x) {
            blockIdx = {x, y, 0};
            run_block(stacks);
        }
}
}  // namespace lockstep

inline void __syncthreads() { lockstep::hand_over(); }

template <class T> T __shfl_xor_sync(unsigned, T value, int step, int = 32) {
    const unsigned own = lockstep::current;
    lockstep::slots[own] = value;
    lockstep::hand_over();
    const T other = static_cast<T>(lockstep::slots[own ^ step]);
    lockstep::hand_over();
    return other;
}

// A CUDA driver for tests on machines without a GPU: it hands every launch to a function of the test, which may read
// and write the "device's" memory, since that is the host's.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace {
struct Config {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  struct Attribute {
    uint32_t id, padding;
    uint32_t value[16];
  }* attributes;
  uint32_t count;
};
std::map<int, int> attributes = {{16, 132}, {97, 232448}, {75, 9}};
int resident = 2, context = 0, refused = 0, opted_in = 0;
void* current = nullptr;
void (*launched)(const char*, const uint32_t*, void**) = nullptr;

int report(const char* name, const uint32_t* grid, const uint32_t* block, uint32_t shared, const uint32_t* cluster,
           uint32_t cooperative, void* stream, void** arguments) {
  if (refused != 0) return refused;
  if (current != &context || stream != reinterpret_cast<void*>(0x57)) return 201;
  uint32_t config[11] = {grid[0], grid[1], grid[2], block[0], block[1], block[2], cluster[0], cluster[1], cluster[2],
                         shared, cooperative};
  launched(name, config, arguments);
  return 0;
}
}  // namespace

extern "C" {
void fake_on_launch(void (*function)(const char*, const uint32_t*, void**)) { launched = function; }
void fake_attribute(int which, int value) { attributes[which] = value; }
void fake_refuse(int result) { refused = result; }
int fake_opted_in() { return opted_in; }
int fake_current() { return current != nullptr; }

int aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = reinterpret_cast<void*>(0x57);
  return 0;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_OF_THE_TEST";
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int) {
  *value = attributes[which];
  return 0;
}
int cuDevicePrimaryCtxRetain(void** got, int) {
  *got = &context;
  return 0;
}
int cuCtxGetCurrent(void** got) {
  *got = current;
  return 0;
}
int cuCtxPushCurrent_v2(void* wanted) {
  current = wanted;
  return 0;
}
int cuCtxPopCurrent_v2(void**) {
  current = nullptr;
  return 0;
}
int cuModuleLoad(void** module, const char* path) {
  FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return 301;
  std::fclose(file);
  *module = &context;
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  *function = strdup(name);
  return 0;
}
int cuFuncGetAttribute(int* value, int which, void*) {
  *value = which == 0 ? 1024 : 16;
  return 0;
}
int cuFuncSetAttribute(void*, int which, int value) {
  if (which == 8) opted_in = value;
  return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  *blocks = resident;
  return 0;
}
int cuMemsetD8Async(uintptr_t at, unsigned char value, size_t bytes, void*) {
  std::memset(reinterpret_cast<void*>(at), value, bytes);
  return 0;
}
int cuLaunchKernel(void* function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz,
                   uint32_t shared, void* stream, void** arguments, void**) {
  const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz}, cluster[3] = {1, 1, 1};
  return report(static_cast<const char*>(function), grid, block, shared, cluster, 0, stream, arguments);
}
int cuLaunchKernelEx(const Config* config, void* function, void** arguments, void**) {
  uint32_t cluster[3] = {1, 1, 1}, cooperative = 0;
  for (uint32_t i = 0; i < config->count; ++i) {
    if (config->attributes[i].id == 4) std::memcpy(cluster, config->attributes[i].value, 12);
    if (config->attributes[i].id == 2) cooperative = config->attributes[i].value[0];
  }
  return report(static_cast<const char*>(function), config->grid, config->block, config->shared_bytes, cluster,
                cooperative, config->stream, arguments);
}
// The first words of the descriptor are what was asked for.
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* size,
                           const uint64_t* stride, const uint32_t* box, const uint32_t* steps, int interleave,
                           int swizzle, int promotion, int fill) {
  uint64_t words[16] = {};
  words[0] = reinterpret_cast<uint64_t>(address), words[1] = type, words[2] = rank;
  for (uint32_t i = 0; i < rank; ++i) words[3 + i] = size[i], words[7 + i] = box[i] * 100 + steps[i];
  for (uint32_t i = 0; i + 1 < rank; ++i) words[11 + i] = stride[i];
  words[15] = interleave * 1000 + swizzle * 100 + promotion * 10 + fill;
  std::memcpy(map, words, sizeof(words));
  return 0;
}
}

/* Kernels for the tests of package cuda, in the form of kernels/cuda/host. Every parameter takes eight bytes. */
#include <cstring>

#include <chrono>
#include <thread>

namespace {

const char *const names[] = {"add", "copy", "one_more", "beyond", "fault", "slow", nullptr};

template <class T>
T at(void **params, int i) {
  T x;
  memcpy(&x, params[i], sizeof x);
  return x;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char *slc_host_kernels(int i) { return names[i]; }

extern "C" __attribute__((visibility("default"))) int slc_host_launch(
    const char *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shared, void **params) {
  long threads = (long)gx * gy * gz * bx * by * bz;
  (void)shared;
  if (!strcmp(kernel, "add")) { /* c[i] = a[i] + b[i], i < n */
    auto a = at<const float *>(params, 0), b = at<const float *>(params, 1);
    auto c = at<float *>(params, 2);
    long n = at<long>(params, 3);
    for (long i = 0; i < threads && i < n; i++) c[i] = a[i] + b[i];
    return 0;
  }
  if (!strcmp(kernel, "copy")) { /* to[i] = from[i], bytes */
    auto to = at<char *>(params, 0);
    auto from = at<const char *>(params, 1);
    memmove(to, from, (size_t)at<long>(params, 2));
    return 0;
  }
  if (!strcmp(kernel, "one_more")) { /* every byte grows by one */
    auto p = at<unsigned char *>(params, 0);
    long n = at<long>(params, 1);
    for (long i = 0; i < n; i++) p[i]++;
    return 0;
  }
  if (!strcmp(kernel, "beyond")) { /* writes out of bounds */
    at<char *>(params, 0)[at<long>(params, 1)] = 1;
    return 0;
  }
  if (!strcmp(kernel, "slow")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(at<long>(params, 0)));
    return 0;
  }
  return strcmp(kernel, "fault") ? 1 : 2;
}

/* Presents NVIDIA's <cuda.h> of CUDA 13.0 (the set-up puts it beside this file as cuda_driver.h) with the revisions
 * of the entry points that gorgonia.org/cu v0.9.4 was written for. libcuda keeps exporting the old revisions; one
 * that a driver lacks returns CUDA_ERROR_NOT_FOUND (cuda/internal/driver). Of the entry points that differ, Sluice
 * itself uses cuEventElapsedTime only. */
#ifndef SLUICE_COMPAT_CUDA_H
#define SLUICE_COMPAT_CUDA_H
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "cuda_driver.h"
#if CUDA_VERSION != 13000
#error "cuda/compat was written for the header of CUDA 13.0"
#endif
#ifdef __cplusplus
extern "C" {
#endif
void handleCUDACB(void *v); /* cu's params.go uses it undeclared: a warning with gcc 12, an error with gcc 14 */

/* Properties of devices that CUDA 12 dropped. */
#define CU_TARGET_COMPUTE_20 20
#define CU_TARGET_COMPUTE_21 21

/* The layout before CUDA 12: params.go fills it by position. */
#undef cuGraphAddKernelNode
#define CUDA_KERNEL_NODE_PARAMS CUDA_KERNEL_NODE_PARAMS_v1
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                                      const CUDA_KERNEL_NODE_PARAMS_v1 *);

/* Calls whose parameters changed in CUDA 13. */
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
#undef cuMemAdvise
CUresult CUDAAPI cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
#undef cuGraphAddDependencies
CUresult CUDAAPI cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
#undef cuGraphGetEdges
CUresult CUDAAPI cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
/* The second revision requires a driver for CUDA 12.8. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *, CUevent, CUevent);
#ifdef __cplusplus
}
#endif
#endif

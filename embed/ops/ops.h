// What Go needs of ONNX Runtime's C interface to be the code of custom operators.
#ifndef SLUICE_OPS_H
#define SLUICE_OPS_H

#include <stdint.h>

#include "onnxruntime_c_api.h"

// A tensor as a kernel gets it. data is NULL where an input is not constant (slc_ops_constant).
typedef struct {
	void *data;
	int64_t dims[4];
	int32_t rank, type; // ONNXTensorElementDataType
} slc_ops_tensor;

// slc_ops_api is the interface of the library at path, which the process has loaded already; NULL with *error set.
const OrtApi *slc_ops_api(const char *path, const char **error);

// The operators.
enum { SLC_OPS_LINEAR, SLC_OPS_LINEAR_NORM, SLC_OPS_LAYER, SLC_OPS_POOL, SLC_OPS_DISENTANGLED, SLC_OPS };

// slc_ops_register adds the operators to the options; owner reaches the callbacks. The domain must outlive the sessions
// made with them.
OrtStatus *slc_ops_register(const OrtApi *api, OrtSessionOptions *options, uintptr_t owner, void **domain);
void slc_ops_free(const OrtApi *api, void *domain);

OrtStatus *slc_ops_inputs(const OrtApi *api, const OrtKernelInfo *info, size_t *count);
OrtStatus *slc_ops_constant(const OrtApi *api, const OrtKernelInfo *info, size_t index, slc_ops_tensor *out);
OrtStatus *slc_ops_int(const OrtApi *api, const OrtKernelInfo *info, const char *name, int64_t *out);
OrtStatus *slc_ops_float(const OrtApi *api, const OrtKernelInfo *info, const char *name, float *out);

// slc_ops_arguments reads the inputs of a call, at most max.
OrtStatus *slc_ops_arguments(const OrtApi *api, OrtKernelContext *context, slc_ops_tensor *out, size_t max,
                             size_t *count);
// slc_ops_result allocates the output of a call.
OrtStatus *slc_ops_result(const OrtApi *api, OrtKernelContext *context, const int64_t *dims, size_t rank, float **out);

// slc_ops_set_helper says which helper the runs on this thread have, counted from 1; 0: none.
void slc_ops_set_helper(int32_t helper);

// slc_ops_text copies a status's message and frees the status.
void slc_ops_text(const OrtApi *api, OrtStatus *status, char *to, size_t size);
OrtStatus *slc_ops_failure(const OrtApi *api, const char *message);

#endif

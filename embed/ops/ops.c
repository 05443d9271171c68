//go:build native

#include "ops.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// The callbacks in Go. A kernel is a handle of Go's, never 0.
extern OrtStatus *sluiceCreateKernel(uintptr_t owner, int32_t op, OrtApi *api, OrtKernelInfo *info, uintptr_t *kernel);
extern OrtStatus *sluiceCompute(uintptr_t kernel, OrtKernelContext *context, int32_t helper);
extern void sluiceDestroyKernel(uintptr_t kernel);

// Each operator takes at least min_inputs inputs of any type, and gives one output of floats.
static const struct {
	const char *name;
	int min_inputs;
} operators[SLC_OPS] = {
	[SLC_OPS_LINEAR] = {"Linear", 3},
	[SLC_OPS_LINEAR_NORM] = {"LinearNorm", 6},
	[SLC_OPS_LAYER] = {"Layer", 18},
	[SLC_OPS_POOL] = {"Pool", 2},
	[SLC_OPS_DISENTANGLED] = {"DisentangledAttention", 2},
};

typedef struct {
	OrtCustomOp op; // first: ONNX Runtime hands this out, and the callbacks find the rest behind it
	uintptr_t owner;
	int32_t index;
} operator;

typedef struct {
	OrtCustomOpDomain *domain;
	operator ops[SLC_OPS];
} domain;

static const char *name_of(const OrtCustomOp *op) { return operators[((const operator *)op)->index].name; }
static const char *provider(const OrtCustomOp *op) { return (void)op, NULL; }
static ONNXTensorElementDataType any(const OrtCustomOp *op, size_t i) {
	return (void)op, (void)i, ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}
static ONNXTensorElementDataType floats(const OrtCustomOp *op, size_t i) {
	return (void)op, (void)i, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}
static size_t one(const OrtCustomOp *op) { return (void)op, 1; }
static OrtCustomOpInputOutputCharacteristic many(const OrtCustomOp *op, size_t i) {
	return (void)op, (void)i, INPUT_OUTPUT_VARIADIC;
}
static OrtCustomOpInputOutputCharacteristic single(const OrtCustomOp *op, size_t i) {
	return (void)op, (void)i, INPUT_OUTPUT_REQUIRED;
}
static OrtMemType memory(const OrtCustomOp *op, size_t i) { return (void)op, (void)i, OrtMemTypeDefault; }
static int min_inputs(const OrtCustomOp *op) { return operators[((const operator *)op)->index].min_inputs; }
static int no(const OrtCustomOp *op) { return (void)op, 0; }
static int yes(const OrtCustomOp *op) { return (void)op, 1; }
static int version(const OrtCustomOp *op) { return (void)op, 1; }

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel) {
	const operator *o = (const operator *)op;
	return sluiceCreateKernel(o->owner, o->index, (OrtApi *)api, (OrtKernelInfo *)info, (uintptr_t *)kernel);
}
static _Thread_local int32_t helper_of_thread;
static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
	return sluiceCompute((uintptr_t)kernel, context, helper_of_thread);
}
static void destroy(void *kernel) { sluiceDestroyKernel((uintptr_t)kernel); }

static const OrtCustomOp callbacks = {
	.version = ORT_API_VERSION, .GetName = name_of, .GetExecutionProviderType = provider,
	.GetInputType = any, .GetInputTypeCount = one, .GetOutputType = floats, .GetOutputTypeCount = one,
	.KernelDestroy = destroy, .GetInputCharacteristic = many, .GetOutputCharacteristic = single,
	.GetInputMemoryType = memory, .GetVariadicInputMinArity = min_inputs, .GetVariadicInputHomogeneity = no,
	.GetVariadicOutputMinArity = yes, .GetVariadicOutputHomogeneity = yes,
	.CreateKernelV2 = create, .KernelComputeV2 = compute, .GetStartVersion = version, .GetEndVersion = version,
};

const OrtApi *slc_ops_api(const char *path, const char **error) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (!library) {
		*error = "it is not the library that this process has loaded";
		return NULL;
	}
	const OrtApiBase *(*base)(void) = (const OrtApiBase *(*)(void))dlsym(library, "OrtGetApiBase");
	const OrtApi *api = base ? base()->GetApi(ORT_API_VERSION) : NULL;
	dlclose(library); // the one who loaded it keeps it
	if (!api) *error = "it does not have the interface's version that this program was built with";
	return api;
}

OrtStatus *slc_ops_register(const OrtApi *api, OrtSessionOptions *options, uintptr_t owner, void **out) {
	domain *d = calloc(1, sizeof *d);
	if (!d) return api->CreateStatus(ORT_FAIL, "out of memory");
	OrtStatus *status = api->CreateCustomOpDomain("sluice", &d->domain);
	for (int32_t i = 0; i < SLC_OPS && !status; i++) {
		d->ops[i] = (operator){callbacks, owner, i};
		status = api->CustomOpDomain_Add(d->domain, &d->ops[i].op);
	}
	if (!status) status = api->AddCustomOpDomain(options, d->domain);
	if (status) slc_ops_free(api, d);
	else *out = d;
	return status;
}

void slc_ops_free(const OrtApi *api, void *p) {
	domain *d = p;
	if (d && d->domain) api->ReleaseCustomOpDomain(d->domain);
	free(d);
}

OrtStatus *slc_ops_inputs(const OrtApi *api, const OrtKernelInfo *info, size_t *count) {
	return api->KernelInfo_GetInputCount(info, count);
}

static OrtStatus *describe(const OrtApi *api, const OrtValue *value, slc_ops_tensor *out) {
	OrtTensorTypeAndShapeInfo *shape = NULL;
	OrtStatus *status = api->GetTensorTypeAndShape(value, &shape);
	if (status) return status;
	ONNXTensorElementDataType type;
	size_t rank = 0;
	if (!(status = api->GetTensorElementType(shape, &type)) && !(status = api->GetDimensionsCount(shape, &rank))) {
		out->type = (int32_t)type, out->rank = (int32_t)rank;
		if (rank > sizeof out->dims / sizeof out->dims[0])
			status = api->CreateStatus(ORT_FAIL, "more than 4 dimensions");
		else status = api->GetDimensions(shape, out->dims, rank);
	}
	api->ReleaseTensorTypeAndShapeInfo(shape);
	return status ? status : api->GetTensorMutableData((OrtValue *)value, &out->data);
}

OrtStatus *slc_ops_constant(const OrtApi *api, const OrtKernelInfo *info, size_t index, slc_ops_tensor *out) {
	int constant = 0;
	const OrtValue *value = NULL;
	OrtStatus *status = api->KernelInfoGetConstantInput_tensor(info, index, &constant, &value);
	if (status) return status;
	out->data = NULL;
	return constant ? describe(api, value, out) : NULL;
}

OrtStatus *slc_ops_int(const OrtApi *api, const OrtKernelInfo *info, const char *name, int64_t *out) {
	return api->KernelInfoGetAttribute_int64(info, name, out);
}

OrtStatus *slc_ops_float(const OrtApi *api, const OrtKernelInfo *info, const char *name, float *out) {
	return api->KernelInfoGetAttribute_float(info, name, out);
}

OrtStatus *slc_ops_arguments(const OrtApi *api, OrtKernelContext *context, slc_ops_tensor *out, size_t max,
                             size_t *count) {
	OrtStatus *status = api->KernelContext_GetInputCount(context, count);
	for (size_t i = 0; i < max && i < *count && !status; i++) {
		const OrtValue *value = NULL;
		status = api->KernelContext_GetInput(context, i, &value);
		if (!status && value) status = describe(api, value, &out[i]);
	}
	return status;
}

OrtStatus *slc_ops_result(const OrtApi *api, OrtKernelContext *context, const int64_t *dims, size_t rank, float **out) {
	OrtValue *value = NULL;
	OrtStatus *status = api->KernelContext_GetOutput(context, 0, dims, rank, &value);
	return status ? status : api->GetTensorMutableData(value, (void **)out);
}

void slc_ops_set_helper(int32_t helper) { helper_of_thread = helper; }

void slc_ops_text(const OrtApi *api, OrtStatus *status, char *to, size_t size) {
	strncpy(to, api->GetErrorMessage(status), size - 1);
	to[size - 1] = 0;
	api->ReleaseStatus(status);
}

OrtStatus *slc_ops_failure(const OrtApi *api, const char *message) { return api->CreateStatus(ORT_FAIL, message); }

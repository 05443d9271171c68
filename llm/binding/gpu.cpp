// llama.cpp's back-ends for GPUs are libraries that are opened when a model asks for them (make llama-cuda builds one).
// They hold their own copy of ggml's base and are registered with llama.cpp through ggml's registry.
#include "../slc_llm.h"

#include "ggml-backend.h"

#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>

extern "C" bool slc_llm_load_gpu(const char * path, char * error, size_t error_size) {
    static std::mutex mutex;
    static std::map<std::string, ggml_backend_reg_t> loaded; // for the life of the process, as ggml's registry is
    std::lock_guard<std::mutex> lock(mutex);
    if (loaded.count(path)) {
        return true;
    }
    void * library = dlopen(path, RTLD_NOW | RTLD_LOCAL); // for the reason, which ggml would only log
    if (!library) {
        snprintf(error, error_size, "%s", dlerror());
        return false;
    }
    if (!dlsym(library, "ggml_backend_init")) {
        snprintf(error, error_size, "%s is not a back-end of ggml", path);
        dlclose(library);
        return false;
    }
    ggml_backend_reg_t reg = ggml_backend_load(path);
    dlclose(library);
    if (!reg) {
        snprintf(error, error_size, "%s is a back-end of another version of ggml", path);
        return false;
    }
    if (ggml_backend_reg_dev_count(reg) == 0) {
        snprintf(error, error_size, "%s finds no GPU", path);
        ggml_backend_unload(reg);
        return false;
    }
    loaded[path] = reg;
    return true;
}

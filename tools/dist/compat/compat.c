// Two functions of newer C libraries that the static libstdc++ and libgcc_eh of a newer compiler call. Defined here,
// and hidden, they are not asked of the system's glibc, so that the program starts from glibc 2.34 on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// arc4random (glibc 2.36) seeds std::random_device.
HIDDEN uint32_t arc4random(void) {
    uint32_t value;
    char *at = (char *)&value;
    size_t left = sizeof value;
    while (left > 0) {
        const ssize_t n = getrandom(at, left, 0);
        if (n < 0 && errno != EINTR) {
            abort();
        }
        if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    return value;
}

// _dl_find_object (glibc 2.35) tells the unwinder which loaded object holds an address. The layout is the C library's,
// on x86-64 and AArch64; the unwinder reads eh_frame and flags only.
struct find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

struct search {
    uintptr_t address;
    struct find_object *found;
};

static int holds(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    struct search *s = arg;
    int inside = 0;
    void *eh_frame = NULL;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD) {
            inside |= s->address >= at && s->address < at + p->p_memsz;
            start = at < start ? at : start;
            end = at + p->p_memsz > end ? at + p->p_memsz : end;
        } else if (p->p_type == PT_GNU_EH_FRAME) {
            eh_frame = (void *)at;
        }
    }
    if (!inside || eh_frame == NULL) {
        return inside;
    }
    *s->found = (struct find_object){.map_start = (void *)start, .map_end = (void *)end, .eh_frame = eh_frame};
    return 2;
}

// A name of its own in C, for headers that declare the C library's with another type.
int find_object(void *address, struct find_object *found) __asm__("_dl_find_object") HIDDEN;

int find_object(void *address, struct find_object *found) {
    struct search s = {(uintptr_t)address, found};
    return dl_iterate_phdr(holds, &s) == 2 ? 0 : -1;
}

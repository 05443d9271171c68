/* slc_cuda_load opens the driver at path and initialises it. It returns 0, -1 when the library cannot be
 * opened, or the driver's code; text (size bytes) then says why (of a code: its name, a line feed and its
 * description), and loaded whether there was a library. Calls must not overlap. */
int slc_cuda_load(const char *path, int *loaded, char *text, int size);

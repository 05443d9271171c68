/* slc_cuda_load opens the driver at path and initialises it. It returns 0, -1 if the library cannot be opened, or
 * the driver's code; text (size bytes) then holds the reason (for a code: its name, a line feed and its
 * description), and loaded whether a library was opened. Calls must not overlap. */
int slc_cuda_load(const char *path, int *loaded, char *text, int size);

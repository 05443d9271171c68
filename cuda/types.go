package cuda

// Info describes a GPU.
type Info struct {
	Ordinal      int
	Name         string
	Capability   [2]int // compute capability, such as 9 and 0
	Memory, Free int64  // bytes; Free when the device was opened, 0 for a device that is not open
	// Driver is the CUDA version that the driver supports, such as "13.0", and the driver's own version if it can be
	// read.
	Driver          string
	DriverVersion   int // 13000 is CUDA 13.0
	Multiprocessors int
	ClockKHz        int // typical clock rate
	Shared          int // maximum bytes of shared memory per block
	L2              int // bytes of the second-level cache
}

// Options of Open.
type Options struct {
	Ordinal     int
	MemoryLimit int64 // maximum bytes of device memory for Alloc; 0: 90 % of the free memory
	Staging     int   // bytes of pinned host memory for copies; 0: 32 MiB
	// Library is the path of the driver; "": SLUICE_LIBCUDA, or the usual places. The first that loads is used for the
	// whole process.
	Library string
}

// Boxes describes a matrix in device memory from which kernels copy boxes with the tensor memory accelerator: Height
// rows of Width elements of Element bytes (1 or 2), Stride bytes apart. A box has at most 128 bytes per row and 256
// rows.
type Boxes struct {
	At                     Ptr
	Element, Width, Height int
	Stride                 int64
	BoxWidth, BoxHeight    int
}

// MapBytes is the size of a map, which must be aligned to 64 bytes.
const MapBytes = 128

// EnvLibrary names the environment variable with the path of the driver's library.
const EnvLibrary = "SLUICE_LIBCUDA"

// DefaultStaging is the value of Options.Staging if it is 0.
const DefaultStaging = 32 << 20

// Ptr is an address in a device's memory.
type Ptr uint64

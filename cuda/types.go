package cuda

// Info is what is known of a GPU.
type Info struct {
	Ordinal      int
	Name         string
	Capability   [2]int // compute capability, such as 9 and 0
	Memory, Free int64  // bytes; Free is known of an opened device only, at the moment it was opened, and else 0
	// Driver is the CUDA version that the driver supports, such as "13.0", and the driver's own where it can be read.
	Driver          string
	DriverVersion   int // 13000 is CUDA 13.0
	Multiprocessors int
	ClockKHz        int // typical clock rate
	Shared          int // bytes of shared memory that a block can have at most
	L2              int // bytes of the second-level cache
}

// Options of Open.
type Options struct {
	Ordinal     int
	MemoryLimit int64 // bytes of device memory that Alloc hands out at most; 0: 90 % of what is free
	Staging     int   // bytes of pinned host memory for copies; 0: 32 MiB
	// Library is the driver's library; "": SLUICE_LIBCUDA, or where drivers are found. The first that works is
	// the process's.
	Library string
}

// Boxes describes a matrix in a device's memory of which kernels copy boxes by the tensor memory accelerator: Height
// rows of Width elements of Element bytes (1 or 2), Stride bytes apart. A box has at most 128 bytes in a row and 256
// rows.
type Boxes struct {
	At                     Ptr
	Element, Width, Height int
	Stride                 int64
	BoxWidth, BoxHeight    int
}

// MapBytes is the size of a map, which has to lie at a multiple of 64.
const MapBytes = 128

// EnvLibrary names the environment variable with the path of the driver's library.
const EnvLibrary = "SLUICE_LIBCUDA"

// DefaultStaging is what Options.Staging 0 stands for.
const DefaultStaging = 32 << 20

// Ptr is an address in a device's memory.
type Ptr uint64

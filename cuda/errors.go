package cuda

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable is wrapped, with the reason, if there is no usable GPU.
	ErrUnavailable = errors.New("cuda: not available")
	// ErrMemory is wrapped if the device's memory or the limit is exhausted.
	ErrMemory = errors.New("cuda: out of device memory")
	// ErrDriver is wrapped by every failure that the driver reports (*Error).
	ErrDriver = errors.New("cuda: driver error")
	// ErrTooOld is wrapped, beside ErrUnavailable, if an image needs a newer driver (*TooOldError).
	ErrTooOld = errors.New("cuda: the driver is too old")
	// ErrImage is wrapped, beside ErrUnavailable, if an image is invalid or has no code for the device.
	ErrImage = errors.New("cuda: no image for this device")
	// ErrLost is wrapped, beside ErrDriver, by every call after a failure that broke the device's context.
	ErrLost = errors.New("cuda: the device is lost until it is closed and opened again")
	// ErrRange is wrapped if a copy exceeds the memory that Alloc returned.
	ErrRange = errors.New("cuda: outside of allocated device memory")
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("cuda: the device is closed")
	// ErrMisuse is wrapped by calls that are not allowed there: Do inside Do, Time inside Time, a double free.
	ErrMisuse = errors.New("cuda: wrong use")
)

// Error is a failure that the driver reported.
type Error struct {
	Call       string // the driver's function, or gorgonia.org/cu's
	Code       int    // the CUresult
	Name, Text string // the driver's description
}

func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("cuda: %s: error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("cuda: %s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Codes that need special handling.
const (
	codeMemory     = 2
	codeStub       = 34
	codeNoDevice   = 100
	codeNotFound   = 500
	codeMismatched = 803 // library and kernel module have different versions
	codeForward    = 804 // a forward-compatibility library on an unsupported device
)

// Is matches the package's sentinels by the error code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrDriver:
		return true
	case ErrMemory:
		return e.Code == codeMemory
	case ErrUnavailable:
		return e.Code == codeStub || e.Code == codeNoDevice || e.Code == codeMismatched || e.Code == codeForward
	}
	return false
}

// breaks reports whether a code leaves the context unusable: every later call would return it again.
func breaks(code int) bool {
	switch code {
	// device unavailable, ECC, NVLink, illegal address, timeout, assertion in a kernel
	case 46, 214, 220, 700, 702, 710:
		return true
	}
	return code >= 714 && code <= 719 || code == 999 // stack, instruction and address errors, launch failed, unknown
}

// MemoryError reports the requested and the available bytes.
type MemoryError struct {
	Asked, Used, Limit int64
	Free               int64 // the device's free memory, -1 if the limit was reached before asking the driver
}

func (e *MemoryError) Error() string {
	if e.Free < 0 {
		return fmt.Sprintf("%v: %d bytes asked, %d in use, the limit is %d", ErrMemory, e.Asked, e.Used, e.Limit)
	}
	return fmt.Sprintf("%v: %d bytes asked, %d in use, %d free on the device, the limit is %d", ErrMemory, e.Asked,
		e.Used, e.Free, e.Limit)
}

// Is matches ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// TooOldError reports the CUDA version a driver supports and the one an image needs: 13000 is 13.0.
type TooOldError struct{ Have, Need int }

func (e *TooOldError) Error() string {
	return fmt.Sprintf("%v: it supports CUDA %s, the compiled kernels need %s: install a newer NVIDIA driver",
		ErrTooOld, versionText(e.Have), versionText(e.Need))
}

// Is matches ErrTooOld and ErrUnavailable.
func (e *TooOldError) Is(target error) bool { return target == ErrTooOld || target == ErrUnavailable }

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

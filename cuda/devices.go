//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

// Available reports whether this build can load a driver.
const Available = true

// check adds the driver's description to an error. Call it at once, on the thread that got the error.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	v := reflect.ValueOf(err) // cu's error type is not exported; it is an integer
	if v.Kind() != reflect.Int {
		return fmt.Errorf("%w: %s: %w", ErrDriver, call, err)
	}
	e := &Error{Call: call, Code: int(v.Int())}
	e.Name, e.Text = driver.Text(e.Code)
	return e
}

// loadDriver loads the driver, or returns why it cannot.
func loadDriver(library string) error {
	err := driver.Load(cmp.Or(library, os.Getenv(EnvLibrary)))
	var le *driver.LoadError
	if err == nil || !errors.As(err, &le) {
		return err
	}
	if le.Code == 0 {
		return fmt.Errorf("%w: no CUDA driver: %s", ErrUnavailable, le.Text)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, &Error{Call: "cuInit", Code: le.Code, Name: le.Name, Text: le.Text})
}

// Devices lists the GPUs without opening them; their free memory is unknown.
func Devices() ([]Info, error) {
	if err := loadDriver(""); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, check("cuDeviceGetCount", err)
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: the driver knows no device", ErrUnavailable)
	}
	list := make([]Info, n)
	for i := range list {
		if list[i], err = describe(i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Device attributes that describe reads; cu's names where it has them.
const (
	attributeL2     cu.DeviceAttribute = 38
	attributeShared cu.DeviceAttribute = 97  // used with the function's attribute set
	attributePools  cu.DeviceAttribute = 115 // whether the device has memory pools
)

func describe(ordinal int) (Info, error) {
	dev, err := cu.GetDevice(ordinal)
	if err != nil {
		return Info{}, check("cuDeviceGet", err)
	}
	i := Info{Ordinal: ordinal}
	if i.Name, err = dev.Name(); err != nil {
		return i, check("cuDeviceGetName", err)
	}
	if i.Memory, err = dev.TotalMem(); err != nil {
		return i, check("cuDeviceTotalMem", err)
	}
	for _, a := range []struct {
		attribute cu.DeviceAttribute
		to        *int
	}{
		{cu.ComputeCapabilityMajor, &i.Capability[0]}, {cu.ComputeCapabilityMinor, &i.Capability[1]},
		{cu.MultiprocessorCount, &i.Multiprocessors}, {cu.ClockRate, &i.ClockKHz}, {attributeShared, &i.Shared},
		{attributeL2, &i.L2},
	} {
		if *a.to, err = dev.Attribute(a.attribute); err != nil {
			return i, check("cuDeviceGetAttribute", err)
		}
	}
	if i.DriverVersion, err = driver.Version(); err != nil {
		return i, check("cuDriverGetVersion", err)
	}
	i.Driver = versionText(i.DriverVersion)
	if own := ownVersion(); own != "" {
		i.Driver += " (" + own + ")"
	}
	return i, nil
}

var kernelModule = regexp.MustCompile(`Kernel Module.*?\s(\d+\.\d+(\.\d+)*)\s`)

// ownVersion returns the driver's own version, such as 580.65.06, from the kernel module; no call of the driver returns
// it.
func ownVersion() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	m := kernelModule.FindStringSubmatch(string(text))
	if m == nil {
		return ""
	}
	return m[1]
}

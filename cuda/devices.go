//go:build native && cgo && linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"

	"gorgonia.org/cu"

	"github.com/sluice-rag/sluice/cuda/internal/driver"
)

// Available tells whether this build can open a driver.
const Available = true

// check gives an error of the driver its words. It has to be called on the thread that got the error, at once.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	v := reflect.ValueOf(err) // cu's type of errors is not exported; it is the number
	if v.Kind() != reflect.Int {
		return fmt.Errorf("%w: %s: %w", ErrDriver, call, err)
	}
	e := &Error{Call: call, Code: int(v.Int())}
	e.Name, e.Text = driver.Text(e.Code)
	return e
}

// loadDriver opens the driver, or says why there is none.
func loadDriver(library string) error {
	if library == "" {
		library = os.Getenv(EnvLibrary)
	}
	err := driver.Load(library)
	var le *driver.LoadError
	if err == nil || !errors.As(err, &le) {
		return err
	}
	if le.Code == 0 {
		return fmt.Errorf("%w: no CUDA driver: %s", ErrUnavailable, le.Text)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, &Error{Call: "cuInit", Code: le.Code, Name: le.Name, Text: le.Text})
}

// Devices lists the GPUs without opening one. Their free memory is not known.
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

// attributes of a device that describe asks for, cu's names where it has one.
const (
	attributeL2     cu.DeviceAttribute = 38
	attributeShared cu.DeviceAttribute = 97  // with the function's attribute set
	attributePools  cu.DeviceAttribute = 115 // whether it has memory pools
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

// ownVersion is the driver's own version, such as 580.65.06, where the kernel module tells it; no call of the
// driver does.
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

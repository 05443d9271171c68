//go:build !cgo || !(amd64 || arm64)

package encoder

// Helper does nothing in a build without C.
type Helper struct{}

// NewHelper returns one.
func NewHelper() *Helper { return &Helper{} }

// Close does nothing.
func (*Helper) Close() {}

// Begin does nothing.
func (*Helper) Begin() {}

// End does nothing.
func (*Helper) End() {}

// Done returns 0.
func (*Helper) Done() int { return 0 }

package serve

import (
	"context"
	"runtime/debug"
	measured "runtime/metrics"
	"time"
)

const (
	memoryInterval = 10 * time.Second
	memoryGrowth   = 128 << 20 // growth of the heap in bytes since the last collection that triggers another one
)

// releaseMemory returns the memory of large requests and uploads to the system until ctx ends; the runtime would keep
// it for minutes.
func releaseMemory(ctx context.Context) {
	kept := heldMemory()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(memoryInterval):
			kept = releaseGrown(kept)
		}
	}
}

// releaseGrown collects if the heap has grown a lot beyond kept, the size after the last collection, and returns the
// new size.
func releaseGrown(kept uint64) uint64 {
	now := heldMemory()
	if now < kept+memoryGrowth {
		return min(kept, now)
	}
	debug.FreeOSMemory()
	return heldMemory()
}

// heldMemory returns the bytes that the system has given to the heap, used or not.
func heldMemory() (bytes uint64) {
	list := []measured.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	measured.Read(list)
	for _, s := range list {
		bytes += s.Value.Uint64()
	}
	return bytes
}

package serve

import (
	"context"
	"runtime/debug"
	measured "runtime/metrics"
	"time"
)

const (
	memoryInterval = 10 * time.Second
	memoryGrowth   = 128 << 20 // bytes of heap beyond those of the last time that make it worth a collection
)

// releaseMemory gives the system back what large requests and uploads have left behind, until ctx ends: the runtime
// would keep it for minutes.
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

// releaseGrown collects if the heap has grown a lot beyond what was kept the last time, and returns what is kept now.
func releaseGrown(kept uint64) uint64 {
	now := heldMemory()
	if now < kept+memoryGrowth {
		return min(kept, now)
	}
	debug.FreeOSMemory()
	return heldMemory()
}

// heldMemory are the bytes that the system has given for the heap, used or not.
func heldMemory() (bytes uint64) {
	list := []measured.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	measured.Read(list)
	for _, s := range list {
		bytes += s.Value.Uint64()
	}
	return bytes
}

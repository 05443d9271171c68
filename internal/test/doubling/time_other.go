//go:build !unix

package doubling

import "time"

// processorTime returns the time of day, where nothing better is known.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

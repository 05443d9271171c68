package pairs

import "golang.org/x/sys/unix"

// populate has the pages mapped at once: all are read for the checksum.
const populate = unix.MAP_POPULATE

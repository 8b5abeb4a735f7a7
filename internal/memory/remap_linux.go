package memory

import "golang.org/x/sys/unix"

// remap makes memory of untouched larger without copying it, or returns nil and
// leaves it as it is.
func remap(b []byte, size int) []byte {
	larger, err := unix.Mremap(b, size, unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil
	}
	return larger
}

// bySmallPages keeps the system from giving 2 MiB for the first byte.
func bySmallPages(b []byte) { _ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) }

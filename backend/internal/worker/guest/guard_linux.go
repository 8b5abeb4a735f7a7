package guest

import "golang.org/x/sys/unix"

// anonymous returns memory that Go does not know.
func anonymous(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// guard makes memory untouchable, or ordinary again.
func guard(page []byte, on bool) error {
	if on {
		return unix.Mprotect(page, unix.PROT_NONE)
	}
	return unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE)
}

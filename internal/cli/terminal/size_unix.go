//go:build unix

package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Size is how many columns and lines out shows; 0, 0 where that is not known.
func Size(out io.Writer) (columns, lines int) {
	f, ok := out.(*os.File)
	if !ok {
		return 0, 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

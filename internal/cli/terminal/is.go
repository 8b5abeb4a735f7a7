package terminal

import (
	"io"
	"os"
)

// Is reports whether out is a terminal, or another device of characters, that lines
// can be drawn anew on.
func Is(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && f.Name() != os.DevNull
}

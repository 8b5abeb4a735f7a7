package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// Size is how many columns and lines out shows; 0, 0 where that is not known.
func Size(out io.Writer) (columns, lines int) {
	f, ok := out.(*os.File)
	if !ok {
		return 0, 0
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

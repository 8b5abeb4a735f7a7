//go:build cgo

package native

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/nesoserve/neso/backend/native/host"
)

// Logger sends records to the server's log, as host.Server does.
type Logger interface {
	Log(level uint8, file string, line int, message string) error
}

// journal is the server's log, as a library in neso-host writes to it.
type journal struct {
	server  Logger
	verbose atomic.Bool // the server's log took verbose messages when a model was loaded
}

// hosted is the journal of this process, if it is neso-host. Libraries log through
// functions that name no object.
var hosted atomic.Pointer[journal]

// LogTo has the libraries of this process, which is a neso-host, log to a server.
func LogTo(l Logger, verbose bool) {
	j := &journal{server: l}
	j.verbose.Store(verbose)
	hosted.Store(j)
}

// Logs reports whether this process is neso-host, whose libraries log to the server,
// and whether they need to say messages of a TRITONSERVER_LogLevel.
func Logs(level int) (enabled, here bool) {
	j := hosted.Load()
	if j == nil {
		return false, false
	}
	return level != int(host.LogVerbose) || j.verbose.Load(), true
}

// Log sends a message to the server's log, or to standard error where the server takes
// no frames any more. It is to be called where Logs says so.
func Log(level int, file string, line int, message string) {
	const unknown = "\uFFFD"
	file, message = strings.ToValidUTF8(file, unknown), strings.ToValidUTF8(message, unknown)
	if hosted.Load().server.Log(uint8(level), file, line, message) != nil {
		fmt.Fprintln(os.Stderr, message)
	}
}

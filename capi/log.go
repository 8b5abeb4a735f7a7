//go:build cgo

package capi

// #include <stdbool.h>
// #include <stdint.h>
import "C"

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/native"
	"github.com/nesoserve/neso/capi/object"
)

// The log is the process's, as with the peer: setters of server options change it
// at once, for all servers.
var logLock sync.Mutex

// logOutput is where the lines go: what was set last.
type logOutput struct{ to atomic.Pointer[os.File] }

func (o *logOutput) Write(line []byte) (int, error) { return o.to.Load().Write(line) }

var lines = func() *logOutput {
	var o logOutput
	o.to.Store(os.Stderr)
	return &o
}()

// setLogFile has further lines appended to a file; the empty name means standard error.
func setLogFile(path string) error {
	f := os.Stderr
	if path != "" {
		var err error
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return backend.Errorf(backend.Internal, "Failed to open log file: %v", err)
		}
	}
	lines.to.Store(f) // the file before is closed when it is collected: a line may be on its way into it
	return nil
}

var processLog = sync.OnceValue(func() *neso.Log {
	l, err := neso.OpenLog(neso.LogSettings{Output: lines})
	if err != nil {
		panic("capi: a log on standard error cannot be opened: " + err.Error())
	}
	return l
})

// setLog changes the process's log.
func setLog(f func(s *neso.LogSettings)) error {
	logLock.Lock()
	defer logLock.Unlock()
	s := processLog().Settings()
	f(&s)
	return processLog().Set(s)
}

// logLevels are the server's, by TRITONSERVER_LogLevel.
var logLevels = [...]slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError, neso.LogVerbose(1)}

//export TRITONSERVER_LogIsEnabled
func TRITONSERVER_LogIsEnabled(level C.int) C.bool {
	if level < 0 || int(level) >= len(logLevels) {
		return false
	}
	if enabled, here := native.Logs(int(level)); here {
		return C.bool(enabled)
	}
	return C.bool(processLog().Logger().Enabled(context.Background(), logLevels[level]))
}

//export TRITONSERVER_LogMessage
func TRITONSERVER_LogMessage(level C.int, file C.uintptr_t, line C.int, message C.uintptr_t) C.uintptr_t {
	if level < 0 || int(level) >= len(logLevels) {
		return C.uintptr_t(object.Errorf(backend.InvalidArg, "unknown logging level '%d'", int(level)))
	}
	if enabled, here := native.Logs(int(level)); here {
		if enabled {
			native.Log(int(level), object.String(uintptr(file)), int(line), object.String(uintptr(message)))
		}
		return 0
	}
	text, at := object.String(uintptr(message)), neso.LogSource(object.String(uintptr(file)), int(line))
	processLog().Logger().LogAttrs(context.Background(), logLevels[level], text, at) //nolint:sloglint // the program's text
	return 0
}

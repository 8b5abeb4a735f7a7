package onnxruntime

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/internal/processors"
)

// environment is an opened library with its OrtEnv: logging, and thread pools
// when they are shared.
type environment struct {
	*api
	env       uintptr
	log       uintptr  // key in loggers
	providers []string // execution providers of the library, for example "CPUExecutionProvider"
	shared    bool     // sessions have no threads of their own
	// uses counts the driver and the sessions: an output that is still being sent
	// may outlive both the model and the backend.
	uses atomic.Int64
}

// Severities of ONNX Runtime.
const (
	severityWarning = 2
	severityError   = 3
	severityFatal   = 4
)

// variableNoTelemetry is what ONNX Runtime asks before it opens a database below
// the home directory, and threads, to report what it is used for (from 1.31 on,
// also on Linux). The function of the C API that switches it off comes too late:
// it needs the environment that opens them.
const variableNoTelemetry = "ORT_DISABLE_TELEMETRY"

// silence keeps a library that is not yet open from reporting, unless the user
// has said otherwise.
func silence() {
	if _, said := os.LookupEnv(variableNoTelemetry); !said {
		_ = os.Setenv(variableNoTelemetry, "1") // only fails for names and values that are none
	}
}

func newEnvironment(lib *library.Library, s *settings, log *slog.Logger) (e *environment, err error) {
	a, err := openAPI(lib)
	if err != nil {
		return nil, err
	}
	e = &environment{api: a, shared: s.sharedThreads, log: loggers.add(log)}
	e.uses.Store(1)
	defer func() {
		if err != nil {
			e.drop()
		}
	}()
	name := library.CString("neso")
	logging := logCallback()
	if s.sharedThreads {
		err = e.createShared(s, logging, name)
	} else {
		err = a.call(fnCreateEnvWithCustomLogger, logging, e.log, severityWarning, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&e.env)))
	}
	if err != nil {
		return nil, err
	}
	if err = a.call(fnDisableTelemetryEvents, e.env); err != nil {
		return nil, err
	}
	e.providers, err = a.availableProviders()
	return e, err
}

// createShared makes thread pools that all sessions share.
func (e *environment) createShared(s *settings, logging uintptr, name *byte) error {
	var threading uintptr
	if err := e.call(fnCreateThreadingOptions, uintptr(unsafe.Pointer(&threading))); err != nil {
		return err
	}
	defer e.release(fnReleaseThreadingOptions, threading)
	intra := s.intra
	if intra == 0 {
		intra = processors.Count()
	}
	if err := e.call(fnSetGlobalIntraOpNumThreads, threading, uintptr(intra)); err != nil {
		return err
	}
	if s.inter > 0 {
		if err := e.call(fnSetGlobalInterOpNumThreads, threading, uintptr(s.inter)); err != nil {
			return err
		}
	}
	// Idle threads sleep: they would take the cores of the others.
	if err := e.call(fnSetGlobalSpinControl, threading, 0); err != nil {
		return err
	}
	return e.call(fnCreateEnvWithLoggerAndThreadPools, logging, e.log, severityWarning, uintptr(unsafe.Pointer(name)), threading,
		uintptr(unsafe.Pointer(&e.env)))
}

// drop ends one use; the last one frees the environment.
func (e *environment) drop() {
	if e.uses.Add(-1) > 0 {
		return
	}
	e.release(fnReleaseMemoryInfo, e.memory)
	e.release(fnReleaseEnv, e.env)
	e.memory, e.env = 0, 0
	loggers.remove(e.log)
}

func (e *environment) has(provider string) bool { return slices.Contains(e.providers, provider) }

// availableProviders lists the execution providers that the library was built
// with.
func (a *api) availableProviders() ([]string, error) {
	var list, n uintptr
	if err := a.call(fnGetAvailableProviders, uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	count := int(int32(n))
	var names []string
	for i := range count {
		names = append(names, library.GoString(*(*uintptr)(unsafe.Add(library.Pointer(list), uintptr(i)*unsafe.Sizeof(list)))))
	}
	return names, a.call(fnReleaseAvailableProviders, list, uintptr(count))
}

// loggers finds the logger of an environment for a callback out of C, which
// cannot hold a Go pointer.
var loggers loggerTable

type loggerTable struct {
	mu   sync.Mutex
	next uintptr
	all  map[uintptr]*limitedLog
}

// limitedLog lets so many lines a second through: clients can bring lines about,
// one for each request that makes the model fail.
type limitedLog struct {
	log    *slog.Logger
	second int64
	lines  int
}

const linesPerSecond = 20

// allow counts a line, and returns how many were left out in the second that
// ended before it.
func (l *limitedLog) allow(second int64) (ok bool, omitted int) {
	if second != l.second {
		omitted = max(0, l.lines-linesPerSecond)
		l.second, l.lines = second, 0
	}
	l.lines++
	return l.lines <= linesPerSecond, omitted
}

func (t *loggerTable) add(log *slog.Logger) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uintptr]*limitedLog{}
	}
	t.next++
	t.all[t.next] = &limitedLog{log: log}
	return t.next
}

func (t *loggerTable) remove(key uintptr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// get returns the logger for one line, or nil for none, and how many lines were
// left out before.
func (t *loggerTable) get(key uintptr, second int64) (*slog.Logger, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[key]
	if l == nil {
		return nil, 0
	}
	ok, omitted := l.allow(second)
	if !ok {
		return nil, 0
	}
	return l.log, omitted
}

// logCallback is the one C function that all environments log through.
var logCallback = sync.OnceValue(func() uintptr {
	return library.Callback(func(key, severity, category, _, location, message uintptr) uintptr {
		log, omitted := loggers.get(key, backend.Now()/int64(time.Second))
		if omitted > 0 {
			log.Warn("lines of ONNX Runtime left out", "lines", omitted)
		}
		if log != nil {
			log.Log(context.Background(), level(int(int32(severity))), "ONNX Runtime",
				"message", library.GoString(message), "category", library.GoString(category), "location", library.GoString(location))
		}
		return 0
	})
})

// level maps a severity. What goes wrong with a model or a request is also
// returned as an error, and a client can bring it about: it is not an error of
// the server.
func level(severity int) slog.Level {
	switch {
	case severity >= severityFatal:
		return slog.LevelError
	case severity >= severityError:
		return slog.LevelWarn
	case severity >= severityWarning:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// Package all is the list of the built-in backends.
package all

import (
	"github.com/nesoserve/neso/backend"
	errorbackend "github.com/nesoserve/neso/backend/error"
	"github.com/nesoserve/neso/backend/fil"
	"github.com/nesoserve/neso/backend/genai"
	"github.com/nesoserve/neso/backend/hosted"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/isolate"
	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/native/plugins"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/backend/openvino"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/backend/repeat"
	"github.com/nesoserve/neso/backend/sleep"
	"github.com/nesoserve/neso/backend/square"
)

// Options configure the built-in backends.
type Options struct {
	// Python is the interpreter of Python models; see package backend/python.
	Python string
	// WorkerBinary is the neso command, for models that run in a process of their
	// own (`isolation: process`, see package backend/isolate), and for workers of
	// another user or with limits.
	WorkerBinary string
	// NativeHost is the neso-host command, which runs backend libraries; see package
	// backend/native.
	NativeHost string
	// NativeHere runs backend libraries in this process, for models with `isolation:
	// none`; nil refuses those.
	NativeHere func() native.Here
	// WorkerUser and WorkerEnvironment are those of package backend/python, for all
	// workers.
	WorkerUser        string
	WorkerEnvironment []string
	// Environment is the server's environment, of which workers get a part; nil is that
	// of this process.
	Environment []string
	// DeviceMemory and CUDALibrary are those of package backend/python.
	DeviceMemory map[int]int64
	CUDALibrary  string
	// OptionPrefix is that of the server, see neso.Server: drivers have it of the
	// server itself, the methods and Describe from here.
	OptionPrefix string
}

// option returns what messages call a setting of the server.
func (o *Options) option(name string) string { return o.OptionPrefix + name }

// Check reports what of the options no worker could be started with.
func (o *Options) Check() error {
	if _, err := process.FindUser(o.WorkerUser, o.option("worker-user")); err != nil {
		return err
	}
	return process.CheckEnvironment(o.WorkerEnvironment, o.option("worker-env"))
}

// Warnings are what the operator of a server with these options should know.
func (o *Options) Warnings() []string {
	if err := process.Apart(); o.WorkerUser != "" && err != nil {
		return []string{"workers of user '" + o.WorkerUser + "' (" + o.option("worker-user") +
			") are not kept apart, models can look into each other's: " + err.Error()}
	}
	return nil
}

// Apart says whether workers of another user are kept apart from each other, and
// why not.
func (o *Options) Apart() (text string, kept bool) {
	if err := process.Apart(); err != nil {
		return "workers of another user (" + o.option("worker-user") + ") are not kept apart: " + err.Error(), false
	}
	return "workers of another user (" + o.option("worker-user") + ") are kept apart from each other", true
}

// Drivers returns all built-in backends.
func Drivers(o Options) []backend.Driver {
	hosts := python.Options{
		Python: o.Python, WorkerUser: o.WorkerUser, WorkerBinary: o.WorkerBinary, WorkerEnvironment: o.WorkerEnvironment,
		Environment: o.Environment, DeviceMemory: o.DeviceMemory, CUDALibrary: o.CUDALibrary,
	}
	drivers := []backend.Driver{
		errorbackend.New(),
		identity.New(),
		python.New(hosts),
		repeat.New(),
		sleep.New(),
		square.New(),
	}
	drivers = append(drivers, hosted.Drivers(hosts)...)
	drivers = append(drivers, native.New(o.native()))
	workers := isolate.Options{
		Binary: o.WorkerBinary, WorkerUser: o.WorkerUser, WorkerEnvironment: o.WorkerEnvironment, Environment: o.Environment,
	}
	if o.Python != "" {
		workers.Env = []string{"NESO_PYTHON=" + o.Python}
	}
	for _, d := range Isolatable(o) {
		drivers = append(drivers, isolate.Wrap(d, workers))
	}
	return drivers
}

// Plugins runs repository agents and response caches that are shared libraries.
func Plugins(o Options) backend.Libraries { return plugins.New(o.native()) }

func (o *Options) native() native.Options {
	return native.Options{
		Host: o.NativeHost, Here: o.NativeHere, WorkerBinary: o.WorkerBinary, WorkerUser: o.WorkerUser,
		WorkerEnvironment: o.WorkerEnvironment, Environment: o.Environment,
	}
}

// Isolatable returns the backends that can run in a worker of their own, as
// such a worker has them: those of C libraries.
func Isolatable(o Options) []backend.Driver {
	return []backend.Driver{
		fil.New(fil.Options{
			Interpreter: interpreter(o), WorkerUser: o.WorkerUser, WorkerBinary: o.WorkerBinary,
			WorkerEnvironment: o.WorkerEnvironment, Environment: o.Environment,
		}),
		genai.New(genai.Options{Interpreter: interpreter(o)}),
		onnxruntime.New(onnxruntime.Options{Interpreter: interpreter(o)}),
		openvino.New(openvino.Options{Interpreter: interpreter(o)}),
	}
}

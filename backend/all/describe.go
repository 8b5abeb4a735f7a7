package all

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/fil"
	"github.com/nesoserve/neso/backend/genai"
	"github.com/nesoserve/neso/backend/hosted"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/backend/native"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/backend/openvino"
	"github.com/nesoserve/neso/backend/python"
)

// Report is what is known of a backend: version, library, devices, or what to
// install.
type Report = library.Report

// specs are the backends that run in a C library.
var specs = []*library.Spec{&fil.Spec, &genai.Spec, &onnxruntime.Spec, &openvino.Spec}

// Describe looks for what each built-in backend needs; directory is
// --backend-directory, or "".
func Describe(ctx context.Context, o Options, directory string) []Report {
	server := backend.Settings{Directory: directory, OptionPrefix: o.OptionPrefix}
	reports := []Report{
		describePython(ctx, o),
		fil.Describe(fil.Options{Interpreter: interpreter(o)}, server),
		genai.Describe(genai.Options{Interpreter: interpreter(o)}, server),
		onnxruntime.Describe(onnxruntime.Options{Interpreter: interpreter(o)}, server),
		openvino.Describe(openvino.Options{Interpreter: interpreter(o)}, server),
	}
	reports = append(reports, hosted.Reports(ctx, python.Options{Python: o.Python}, server)...)
	reports = append(reports, describeNative(o))
	for _, d := range Drivers(o) {
		if d.Name == "dali" { // only an explanation
			_, err := d.Open(ctx, nil, server)
			reports = append(reports, Report{Backend: d.Name, Err: err})
			continue
		}
		if !slices.ContainsFunc(reports, func(r Report) bool { return r.Backend == d.Name }) {
			reports = append(reports, Report{Backend: d.Name, Version: "-", Library: "built in", Devices: []string{"CPU"}})
		}
	}
	return reports
}

// describeNative is of the libraries of others: what runs them.
func describeNative(o Options) Report {
	r := Report{Backend: native.Name, Version: "-", Devices: []string{"CPU"}}
	r.Library, r.Err = native.Describe(native.Options{Host: o.NativeHost})
	return r
}

func describePython(ctx context.Context, o Options) Report {
	r := Report{Backend: "python", Devices: []string{"CPU"}}
	path, err := python.DefaultInterpreter(o.Python, o.option("python"))
	if err != nil {
		r.Err = err
		return r
	}
	r.Library = path
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-c", "import platform; print(platform.python_version()); import numpy").Output()
	r.Version = strings.TrimSpace(string(out))
	if err != nil {
		r.Err = backend.Errorf(backend.Unavailable, "%s does not have numpy: '%s -m pip install numpy'", path, path)
	}
	return r
}

// interpreter returns the function that finds the interpreter when it is needed;
// its error calls the setting option.
func interpreter(o Options) func(option string) (string, error) {
	return func(option string) (string, error) { return python.DefaultInterpreter(o.Python, option) }
}

// Libraries names the backends whose library Add can install.
func Libraries() []string {
	var names []string
	for _, s := range specs {
		names = append(names, s.Backend)
	}
	return names
}

// Package returns what pip calls the package of a backend's library.
func Package(name string) (string, error) {
	s, err := specOf(name)
	if err != nil {
		return "", err
	}
	return s.Install, nil
}

// Add takes the library of a backend out of a wheel, into the backend
// directory, and returns the files it wrote.
func Add(name, wheel, directory string) ([]string, error) {
	s, err := specOf(name)
	if err != nil {
		return nil, err
	}
	return s.Add(wheel, directory)
}

func specOf(name string) (*library.Spec, error) {
	for _, s := range specs {
		if s.Backend == name {
			return s, nil
		}
	}
	return nil, backend.Errorf(backend.NotFound, "backend '%s' has no library to add; those that have one: %s", name,
		strings.Join(Libraries(), ", "))
}

// Package doctor owns `neso doctor`: what of this machine would keep a server or
// its models from running.
package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/cli/terminal"
	"github.com/nesoserve/neso/internal/processors"
)

// finding is what doctor says of one thing.
type finding struct {
	what   string
	ok     bool
	need   bool // without it the server or a usual model does not run
	text   string
	advice string
}

// ErrMissing says that something is missing, which has been printed.
var ErrMissing = errors.New("something that models need is missing")

// Command is `neso doctor`, which prints to out.
func Command(out io.Writer) *cobra.Command {
	var interpreter string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this machine and say what would keep a server or its models from running",
		Long: `Looks at Python, libraries, GPU, ports and limits, and says what to do. Exit
status 1 when something that models need is missing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fine := true
			out := bufio.NewWriter(out) // it keeps its first error
			fmt.Fprintf(out, "neso %s, %s/%s, %d cores\n", neso.Version(), runtime.GOOS, runtime.GOARCH, processors.Count())
			for _, f := range examine(cmd.Context(), interpreter) {
				mark := "ok  "
				switch {
				case !f.ok && f.need:
					mark, fine = "FAIL", false
				case !f.ok:
					mark = "note"
				}
				fmt.Fprintf(out, "%s  %-10s %s\n", mark, f.what, f.text)
				if !f.ok && f.advice != "" {
					for _, line := range terminal.Wrap(f.advice, 70) {
						fmt.Fprintf(out, "%17s%s\n", "", line)
					}
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if !fine {
				return ErrMissing
			}
			return nil
		},
	}
	c.Flags().StringVar(&interpreter, "python", "", "the interpreter of Python models; default as for neso serve")
	return c
}

// examine looks at everything.
func examine(ctx context.Context, interpreter string) []finding {
	findings := []finding{examinePython(ctx, interpreter)}
	findings = append(findings, examineLimits()...)
	findings = append(findings, examineGPU(ctx))
	for _, port := range []struct {
		name, address, option string
	}{{"HTTP", ":8000", "http-port"}, {"gRPC", ":8001", "grpc-port"}, {"metrics", ":8002", "metrics-port"}} {
		findings = append(findings, examinePort(port.name, port.address, port.option))
	}
	return findings
}

// probeTime bounds each program that is asked something.
const probeTime = 20 * time.Second

func examinePython(ctx context.Context, named string) finding {
	f := finding{
		what: "Python", need: true,
		advice: "Install Python 3.9 or later with numpy (python3 -m pip install numpy) and name it with --python or NESO_PYTHON. Models of " +
			"other backends do not need it.",
	}
	path, err := python.DefaultInterpreter(named, "--python")
	if err != nil {
		f.text = err.Error()
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	script := "import sys; print('%d.%d.%d' % sys.version_info[:3], sys.version_info >= (3, 9)); import numpy; print(numpy.__version__)"
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "-c", script)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	words := strings.Fields(stdout.String())
	switch {
	case len(words) < 2:
		f.text = fmt.Sprintf("%s does not run: %v %s", path, err, lastLine(stderr.String()))
	case words[1] != "True":
		f.text = fmt.Sprintf("%s is version %s, too old", path, words[0])
	case err != nil:
		f.text = fmt.Sprintf("%s (%s) lacks numpy: %s", path, words[0], lastLine(stderr.String()))
		f.advice = path + " -m pip install numpy"
	default:
		f.ok, f.text = true, fmt.Sprintf("%s, version %s, numpy %s", path, words[0], words[2])
	}
	return f
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func examinePort(name, address, option string) finding {
	l, err := net.Listen("tcp", address)
	if err == nil {
		l.Close()
		return finding{what: "port", ok: true, text: name + " " + address + " is free"}
	}
	return finding{
		what: "port", text: fmt.Sprintf("%s %s: %v", name, address, err),
		advice: "Another server has it. Stop that one, or choose another port with --" + option + ".",
	}
}

func examineGPU(ctx context.Context) finding {
	f := finding{what: "GPU", text: "none found", advice: "Models run on the CPU."}
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		if _, err := os.Stat("/dev/nvidiactl"); !errors.Is(err, os.ErrNotExist) {
			f.text, f.advice = "a device is there, nvidia-smi is not",
				"Install the driver's tools, or give the container the driver capability 'utility'."
		}
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader").Output()
	if err != nil {
		f.text, f.advice = "nvidia-smi fails: "+err.Error(), "Run nvidia-smi to see why."
		return f
	}
	f.ok, f.text = true, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "; ")
	return f
}

package inspect

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/internal/repository/layout"
)

// TestTranscripts runs testdata/*.transcript. A block is a command line, its
// input, a line "----" and the output, up to an empty line. Commands:
//
//	load    all steps of a load on text; prints JSON, or the faults
//	json    the same on an override in JSON
//	print   all steps on text; prints text and YAML
//	merge   as load, but the last line is what a backend completed
//
// Arguments are name=, files= (in the model's directory), gpus= (numbers, also as
// 0/8.9 with their compute capability), uses=no (a backend that cannot use them),
// kind=, count= and show= (a member of the JSON to print in place of all of it, or "file", what
// the backend is told to load).
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.transcript", func(t *testing.T, _, text string) string { return runTranscript(t, text) })
}

func runTranscript(t *testing.T, data string) string {
	var out strings.Builder
	lines := strings.SplitAfter(data, "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i])
		if strings.TrimSpace(lines[i]) == "" || strings.HasPrefix(lines[i], "#") {
			continue
		}
		command := strings.Fields(lines[i])
		var input strings.Builder
		for i++; i < len(lines) && lines[i] != "----\n"; i++ {
			out.WriteString(lines[i])
			input.WriteString(lines[i])
		}
		if i == len(lines) {
			t.Fatalf("no ---- after %s", command)
		}
		out.WriteString("----\n")
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
		}
		out.WriteString(strings.TrimRight(runCommand(t, command, input.String()), "\n") + "\n")
		if i < len(lines) {
			out.WriteString(lines[i])
		}
	}
	return out.String()
}

func runCommand(t *testing.T, command []string, input string) string {
	args := map[string]string{"name": "m", "files": "1/model.py", "kind": "KIND_CPU", "count": "0"}
	for _, a := range command[1:] {
		key, value, _ := strings.Cut(a, "=")
		args[key] = value
	}
	completed := ""
	if command[0] == "merge" {
		lines := strings.SplitAfter(strings.TrimSpace(input), "\n")
		completed = lines[len(lines)-1]
		input = strings.Join(lines[:len(lines)-1], "")
	}
	c, err := runLoad(t, command[0] == "json", args, input, completed)
	if err != nil {
		return fmt.Sprintf("%s: %s", backend.AsError(err).Code, err)
	}
	if command[0] == "print" {
		y, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Text()) + "---\n" + string(y)
	}
	if args["show"] == "file" {
		return c.Filename
	}
	if member := args["show"]; member != "" {
		_, rest, _ := strings.Cut(string(c.JSON()), `"`+member+`":`)
		return balanced(rest)
	}
	return string(c.JSON())
}

func runLoad(t *testing.T, json bool, args map[string]string, input, completed string) (*modelconfig.Config, error) {
	parse := draft.Parse
	if json {
		parse = draft.ParseJSON
	}
	d, err := parse([]byte(input), "config.pbtxt")
	dir := fstest.MapFS{}
	for f := range strings.SplitSeq(args["files"], ",") {
		if f != "" {
			dir[f] = &fstest.MapFile{}
		}
	}
	if err != nil {
		// As neso config check and a load would say it, of a directory of these files.
		top := t.TempDir()
		if err := os.CopyFS(top, dir); err != nil {
			t.Fatal(err)
		}
		of := Subject{Name: args["name"], Directory: top, Shown: args["name"], Strict: completed == ""}
		return nil, Draft(d, of, err).Faults
	}
	if err := d.CompleteBackend(args["name"], layout.FirstVersion(dir)); err != nil {
		return nil, err
	}
	d.Normalize()
	if err := d.Validate(completed == ""); err != nil {
		return nil, err
	}
	if err := d.CheckDirectory(args["name"]); err != nil {
		return nil, err
	}
	gpus := gpu.Set{Least: gpu.DefaultLeast}
	for g := range strings.SplitSeq(args["gpus"], ",") {
		number, capability, _ := strings.Cut(g, "/")
		if n, err := strconv.Atoi(number); err == nil {
			device := gpu.Device{Number: n}
			_, _ = fmt.Sscanf(capability, "%d.%d", &device.Major, &device.Minor) // 0.0 where the case does not care
			gpus.Devices = append(gpus.Devices, device)
		}
	}
	count, _ := strconv.Atoi(args["count"])
	if err := d.NormalizeInstances(gpus, backend.Capabilities{
		Kind: args["kind"], Count: count,
		UsesGPU: func() bool { return args["uses"] != "no" },
	}); err != nil {
		return nil, err
	}
	if completed != "" {
		if err := d.Merge([]byte(completed)); err != nil {
			return nil, err
		}
	}
	return d.Finish()
}

// balanced cuts s after the JSON value that it begins with.
func balanced(s string) string {
	depth := 0
	for i, c := range s {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth < 0 || c == ',' && depth == 0 {
			return s[:i]
		}
	}
	return s
}

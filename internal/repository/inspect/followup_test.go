package inspect

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/draft"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/read"
)

// word matches the names, numbers and texts of a configuration.
var word = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_]\w*|\.?[0-9](?:[eE][+-]|[\w.])*`)

// examples returns real configurations, by file.
func examples(t *testing.T, name string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../modelconfig/testdata/triton/" + name + ".pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	texts := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(data)
	}
	return texts
}

// explained checks that the further steps take what a draft with faults holds,
// and that no fault of the first step is lost.
func explained(t *testing.T, d *draft.Draft, faults fault.List) {
	t.Helper()
	all := Draft(d, Subject{Name: "m", Custom: true, Strict: true}, faults).Faults
	if len(all) < len(faults) {
		t.Fatalf("%d faults became %d", len(faults), len(all))
	}
	for _, f := range faults {
		if !slices.Contains(all, f) {
			t.Fatalf("lost: %v", f)
		}
	}
}

// FuzzFaults: whatever cannot be read is told, in either form, and the rest looked at.
func FuzzFaults(f *testing.F) {
	for _, pattern := range []string{"../../modelconfig/testdata/triton/*", "testdata/*.transcript"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no examples", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, filepath.Ext(file) == ".json")
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, json bool) {
		parse := draft.Parse
		if json {
			parse = draft.ParseJSON
		}
		d, err := parse(text, "config.pbtxt")
		if err == nil {
			return
		}
		var faults fault.List
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("no faults in %v", err)
		}
		explained(t, d, faults)
	})
}

// TestEachWordWrong puts wrong words in the place of each word of real
// configurations: a value of another type costs no more than itself, and what
// is left goes through all steps.
func TestEachWordWrong(t *testing.T) {
	for file, text := range examples(t, "*") {
		for _, w := range word.FindAllStringIndex(text, -1) {
			before, after := text[:w[0]], text[w[1]:]
			name := word.FindString(text[w[0]:])[0]
			ident := name == '_' || 'a' <= name|0x20 && name|0x20 <= 'z'
			for _, wrong := range []string{"wrong", "-7.5", `"wrong"`, "{ }", "{ a: [ 1 ] b { } }", "[ wrong, \n 3 ]", "x: y"} {
				bad := []byte(before + wrong + after)
				d, err := draft.Parse(bad, "config.pbtxt")
				var faults fault.List
				if !errors.As(err, &faults) {
					continue // still right, such as another name of a tensor
				}
				// Not one half of a value: a number with its sign, texts in a row.
				alone := !strings.HasSuffix(before, "-") && !strings.Contains(text, `'v' "w"`)
				if d == nil && alone && !ident && !strings.ContainsAny(wrong, "{[:") {
					t.Errorf("%s: a value of another type, %s at %d, costs the rest: %v", file, wrong, w[0], err)
				}
				explained(t, d, faults)
			}
		}
	}
}

// TestNoFollowUps leaves out each field of real configurations in the way of a
// wrong value: that is one fault, and nothing else is reported.
func TestNoFollowUps(t *testing.T) {
	for file, text := range examples(t, "*") {
		name := strings.TrimSuffix(filepath.Base(file), ".pbtxt")
		from, _ := read.Text([]byte(text), file, (&inferencepb.ModelConfig{}).ProtoReflect())
		lines := strings.SplitAfter(text, "\n")
		for path, at := range from.Places {
			line := lines[at.Line-1]
			field := line[at.Column-1:]
			end := strings.IndexFunc(field, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
			if end <= 0 {
				continue // an element of a list
			}
			for _, wrong := range []string{field[:end] + "s", field[:end-1], "xyzzy"} {
				bad := strings.Join(lines[:at.Line-1], "") + line[:at.Column-1] + wrong + field[end:] + strings.Join(lines[at.Line:], "")
				d, err := draft.Parse([]byte(bad), "config.pbtxt")
				if d == nil || err == nil {
					continue // another field that exists, or not clear what belongs to what
				}
				first := len(fault.Of(err))
				if all := Draft(d, Subject{Name: name, Custom: true}, err).Faults; len(all) > first && wrong != "xyzzy" {
					t.Errorf("%s: %s as %s:\n%v", file, path, wrong, all)
				}
			}
		}
	}
}

// TestOwnFaultsStay: a field that cannot be read hides what follows from it, and
// nothing else of the fields beside it.
func TestOwnFaultsStay(t *testing.T) {
	const (
		ragged = `backend: "python" input { name: "A" data_type: TYPE_FP32 dims: 4 } output { name: %s data_type: TYPE_FP32 dims: 4 }
batch_output { target_name: "C" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "Q" }`
		state = `backend: "python" sequence_batching { state { input_name: "i" data_type: TYPE_FP32 dims: [ %s ]
initial_state { name: "n" data_type: TYPE_INT32 dims: [ 3 ] zero_data: true } } }`
		controls = `backend: "python" sequence_batching {
control_input { name: "S" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
control_input { name: "E" control { kind: %s int32_false_true: [ 0, 1 ] } }
control_input { name: "T" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }`
	)
	for _, c := range []struct{ text, value, want string }{
		{ragged, "{ }", "batch_output[0].source_input[0] output[0].name"},
		{ragged, `"B"`, "batch_output[0].source_input[0] batch_output[0].target_name[0]"},
		{state, "x", "sequence_batching.state[0].dims[0] sequence_batching.state[0].initial_state[0].data_type"},
		{state, "4", "sequence_batching.state[0].initial_state[0].data_type sequence_batching.state[0].initial_state[0].dims[0]"},
		{controls, "x", "sequence_batching.control_input[1].control[0].kind sequence_batching.control_input[2].control[0].kind"},
		{controls, "CONTROL_SEQUENCE_END", "sequence_batching.control_input[2].control[0].kind"},
	} {
		d, err := draft.Parse([]byte(strings.Replace(c.text, "%s", c.value, 1)), "config.pbtxt")
		var fields []string
		for _, f := range Draft(d, Subject{Name: "m", Custom: true}, err).Faults {
			fields = append(fields, f.Path)
		}
		slices.Sort(fields)
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.value, got, c.want)
		}
	}
}

package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/read"
)

// write makes a file with its directories; a name that ends with "/" is a
// directory.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const addSub = `
input { name: "A" data_type: TYPE_FP32 dims: 4 }
output { name: "B" data_type: TYPE_FP32 dims: 4 label_filename: "labels.txt" }
`

func TestCheckRepository(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"good/config.pbtxt": addSub, "good/1/model.py": "", "good/labels.txt": "a\n",
		"labels/config.pbtxt": "backend: \"python\"" + addSub, "labels/1/model.py": "",
		"syntax/config.pbtxt": "max_batch_sise: 1\nbackend: 3\n", "syntax/1/model.py": "",
		"versions/config.pbtxt": "backend: \"x\" version_policy { specific { versions: [ 1, 3 ] } }", "versions/01/": "", "versions/2/": "",
		"file/config.pbtxt": `backend: "python" instance_group { kind: KIND_GPU } dynamic_batching { }`, "file/1/": "",
		"ens/1/": "", "ens/config.pbtxt": `platform: "ensemble"
input { name: "A" data_type: TYPE_FP32 dims: 4 } output { name: "B" data_type: TYPE_FP32 dims: 4 }
ensemble_scheduling { step { model_name: "gone" input_map { key: "A" value: "A" } output_map { key: "B" value: "B" } } }`,
		"auto/1/model.py": "",
		"warm/1/model.py": "",
		"warm/config.pbtxt": `input { name: "A" } model_warmup { name: "s" batch_size: 1 inputs { key: "A" value { data_type: TYPE_FP32 dims: ` +
			`1 input_data_file: "raw" } } }`,
		".hidden/x": "",
	})
	report, err := Check(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.OK() {
		t.Error("OK despite faults")
	}
	got := strings.ReplaceAll(report.String(), root, "R")
	want := `auto: ok
  hint: no config.pbtxt: the backend has to supply the configuration
ens: ok
  hint: ensemble_scheduling.step[0]: model_version is not set and so means version 0; -1 means the latest
file: 1 fault
  R/file/config.pbtxt, field default_model_filename: expected the file "R/file/1/model.py", found none
  hint: KIND_GPU loads only on a server with GPUs; KIND_AUTO takes what there is
  hint: dynamic_batching without max_batch_size above 0 never batches, unless the backend completes max_batch_size
good: ok
labels: 1 fault
  failed to open text file for read R/labels/labels.txt: No such file or directory (R/labels/config.pbtxt:3, field output[0].label_filename: expected a file, found none)
syntax: 2 faults
  R/syntax/config.pbtxt:1:1, field max_batch_sise: expected a field of the model configuration, found unknown field "max_batch_sise"; did you mean "max_batch_size"?
  R/syntax/config.pbtxt:2:10, field backend: expected a text in quotes, found "3"
versions: 1 fault
  at least one version must be available under the version policy of model 'versions': there is no directory of version 1, 3 (R/versions/config.pbtxt:1, field version_policy: expected a version directory such as "R/versions/1", found 1 versions)
  hint: directory "01" is no version: a version is a number without leading zeros
  hint: version 1 of the version policy has no directory and is skipped
  hint: version 3 of the version policy has no directory and is skipped
warm: 1 fault
  failed to open file for read R/warm/warmup/raw: No such file or directory (R/warm/config.pbtxt:1, field model_warmup[0].inputs["A"].input_data_file: expected a file, found none)
  hint: model input 'A' must specify 'data_type' for warm (R/warm/config.pbtxt:1, field input[0].data_type: expected one of TYPE_BOOL, TYPE_UINT8, ..., TYPE_STRING, TYPE_BF16, found nothing); loads only if the backend completes it
  hint: model input 'A' must specify 'dims' for warm (R/warm/config.pbtxt:1, field input[0].dims: expected at least one dimension, found none); loads only if the backend completes it
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCheckOne(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"m/config.pbtxt": addSub, "m/1/model.py": "", "m/labels.txt": "",
		"over.json":  `{"name":"other","backend":"python","max_batch_size":-1}`,
		"big.pbtxt":  strings.Repeat(" ", read.MaxSize+1),
		"empty/dir/": "", "none/": "", "numbers/1": "a file, not a version", "numbers/m/1/model.py": "",
	})
	for path, want := range map[string]string{
		"m":              "m: ok\n",
		"m/config.pbtxt": "m: ok\n",
		"numbers":        "m: ok\n  hint: no config.pbtxt: the backend has to supply the configuration\n",
		"over.json": "other: 1 fault\n  'max_batch_size' must be non-negative value for other (R/over.json, field max_batch_size: " +
			"expected 0 or more, found -1)\n",
		"big.pbtxt": "R: 1 fault\n  R/big.pbtxt: expected a file of at most 4194304 bytes\n",
	} {
		report, err := Check(filepath.Join(root, path), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.ReplaceAll(report.String(), root, "R"), filepath.Base(root)+":", "R:")
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
	for _, path := range []string{"none", "missing"} {
		if _, err := Check(filepath.Join(root, path), Options{}); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// TestCheckLeavesTensorsToTheBackend: what refers to inputs and outputs that the
// file does not have is no fault where the backend may complete them.
func TestCheckLeavesTensorsToTheBackend(t *testing.T) {
	root := t.TempDir()
	const ragged = `backend: "onnxruntime"
max_batch_size: 4
batch_input { kind: BATCH_ELEMENT_COUNT data_type: TYPE_FP32 target_name: "COUNT" source_input: "IN" }
`
	write(t, root, map[string]string{
		"open/config.pbtxt": ragged, "open/1/model.onnx": "",
		"said/config.pbtxt": ragged + `input { name: "OTHER" data_type: TYPE_FP32 dims: 4 }`, "said/1/model.onnx": "",
	})
	report, err := Check(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `open: ok
  hint: unknown source input name 'IN' for open (R/open/config.pbtxt:3, field batch_input[0].source_input[0]: expected the name of an input, found "IN"); loads only if the backend completes it
said: 1 fault
  unknown source input name 'IN' for said (R/said/config.pbtxt:3, field batch_input[0].source_input[0]: expected the name of an input, found "IN")
`
	if got := strings.ReplaceAll(report.String(), root, "R"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestCheckReportsEveryFault: what cannot be read and what is wrong come
// together, by line, and the one is not repeated by way of the other.
func TestCheckReportsEveryFault(t *testing.T) {
	root := t.TempDir()
	const text = `backend: "python"
max_batch_size: -1
input [
  { name: "A" dims: [ -1 ] },
  { name: "B" data_type: TYPE_FP23 dims: [ 0 ] }
]
max_batch_sizes: 3
`
	write(t, root, map[string]string{
		"m/config.pbtxt": text, "m/1/model.py": "",
		"j.json": `{"name": "j", "backend": "python", "max_batch_size": -1, "input": [{"name": "B", "data_type": "TYPE_FP23", ` +
			`"dims": [0]}]}`,
		"gaps/1/model.py": "", "gaps/config.pbtxt": `max_batch_size: many
backend: { }
dynamic_batching { }
version_policy: { specific { versions: [ one ] } }
output { name: "B" data_type: TYPE_FP32 dims: 4 label_filename: "gone" }
`,
		"m_backend/config.pbtxt": "max_batch_size: -1\nmaximum: 3\n", "m_backend/1/": "",
	})
	for path, want := range map[string]string{
		"m": `m: 4 faults
  'max_batch_size' must be non-negative value for m (R/m/config.pbtxt:2, field max_batch_size: expected 0 or more, found -1)
  R/m/config.pbtxt:5:26, field input[1].data_type: expected one of TYPES, found "TYPE_FP23"; did you mean "TYPE_FP32"?
  model input 'B' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for m (R/m/config.pbtxt:5, field input[1].dims[0]: expected integers of at least 1, or -1 for any size, found 0)
  R/m/config.pbtxt:7:1, field max_batch_sizes: expected a field of the model configuration, found unknown field "max_batch_sizes"; did you mean "max_batch_size"?
  hint: model input 'A' must specify 'data_type' for m (R/m/config.pbtxt:4, field input[0].data_type: expected one of TYPE_BOOL, TYPE_UINT8, ..., TYPE_STRING, TYPE_BF16, found nothing); loads only if the backend completes it
`,
		"j.json": `j: 3 faults
  R/j.json, field input[0].data_type: expected one of TYPES, found "TYPE_FP23"; did you mean "TYPE_FP32"?
  'max_batch_size' must be non-negative value for j (R/j.json, field max_batch_size: expected 0 or more, found -1)
  model input 'B' dimension must be integer >= 1, or -1 to indicate a variable-size dimension for j (R/j.json, field input[0].dims[0]: expected integers of at least 1, or -1 for any size, found 0)
`,
		"gaps": `gaps: 4 faults
  R/gaps/config.pbtxt:1:17, field max_batch_size: expected an integer (int32), found "many"
  R/gaps/config.pbtxt:2:10, field backend: expected a text in quotes, found a message
  R/gaps/config.pbtxt:4:42, field version_policy.specific.versions[0]: expected an integer (int64), found "one"
  failed to open text file for read R/gaps/gone: No such file or directory (R/gaps/config.pbtxt:5, field output[0].label_filename: expected a file, found none)
`,
		"m_backend": `m_backend: 3 faults
  'max_batch_size' must be non-negative value for m_backend (R/m_backend/config.pbtxt:1, field max_batch_size: expected 0 or more, found -1)
  R/m_backend/config.pbtxt:2:1, field maximum: expected a field of the model configuration, found unknown field "maximum"
  Invalid model name: Could not determine backend for model 'm_backend' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'. (R/m_backend/config.pbtxt, field backend: expected 'backend' or 'platform', or a file such as model.py or model.onnx in the version directory, found none of them)
`,
	} {
		report, err := Check(filepath.Join(root, path), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(report.String(), root, "R")
		types := strings.Join(datatypes(), ", ")
		if got = strings.ReplaceAll(got, types, "TYPES"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// datatypes are the names that a user may write.
func datatypes() (names []string) {
	values := inferencepb.DataType_TYPE_BOOL.Descriptor().Values()
	for i := range values.Len() {
		if v := values.Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return names
}

// TestCheckOneFaultOnce: what follows from a fault is not another one, and no
// range is told that nothing is in.
func TestCheckOneFaultOnce(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "m")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "backend: \"identity\"\nmax_batch_size: 0\ndynamic_batching { preferred_batch_size: [ 99 ] }\nversion_policy { latest { " +
		"num_versions: 0 } }\n"
	if err := os.WriteFile(filepath.Join(dir, "config.pbtxt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := Check(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := report.String()
	if strings.Count(got, "at least one version") != 1 || !strings.Contains(got, "expected at least 1, found 0") {
		t.Errorf("the version policy:\n%s", got)
	}
	if !strings.Contains(got, "expected none while max_batch_size is 0, found 99") {
		t.Errorf("the batch size:\n%s", got)
	}
}

// TestCheckRules: the rules for the versions are looked at too, as far as no load is
// needed for that.
func TestCheckRules(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"good/config.pbtxt": addSub, "good/1/model.py": "", "good/rollout.yaml": "labels: {stable: 1}", "good/labels.txt": "",
		"bad/config.pbtxt": addSub, "bad/1/model.py": "", "bad/rollout.yaml": "labels: {stable: x}\nsticky: cookie",
		"lacks/config.pbtxt": addSub, "lacks/1/model.py": "", "lacks/2/model.py": "", "lacks/rollout.yaml": "labels: {stable: 1}",
	})
	report, err := Check(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(report.String(), root, "R")
	for _, want := range []string{
		"R/bad/rollout.yaml:1: labels.stable: expected the number of a version, got 'x'",
		"R/bad/rollout.yaml:2: sticky: 'cookie' is not a header to go by",
		"R/lacks/rollout.yaml: labels.stable: version 1 is not loaded: the version policy loads 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	if n := len(report.Models[1].Faults); report.Models[1].Name != "good" || n != 0 {
		t.Errorf("good has %d faults", n)
	}
}

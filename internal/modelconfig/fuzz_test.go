package modelconfig

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/inferencepb"
)

func addExamples(f *testing.F, pattern string) {
	f.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// allSteps runs a draft through everything; none of it may panic, whatever the
// configuration says.
func allSteps(t *testing.T, d *Draft) {
	t.Helper()
	if again, err := Parse(d.Text(), "printed"); err != nil {
		t.Fatalf("the printed text does not parse: %v\n%s", err, d.Text())
	} else if a, b := marshal(t, d.pb), marshal(t, again.pb); !bytes.Equal(a, b) {
		// Compared as bytes, since NaN is not equal to itself.
		t.Fatalf("not the same after printing and parsing\n%s\n%s", d.Text(), again.Text())
	}
	_ = d.CompleteBackend("m", nil)
	d.Normalize()
	_ = d.Validate(true)
	_ = d.NormalizeInstances(gpu.Set{Devices: []gpu.Device{{Major: 7, Minor: 5}}}, backend.Capabilities{})
	view := d.View()
	if err := protojson.Unmarshal(view.JSON(), &inferencepb.ModelConfig{}); err != nil {
		t.Fatalf("the JSON form is not protobuf JSON: %v\n%s", err, view.JSON())
	}
	merged, err := ParseJSON(view.JSON(), "json")
	if err != nil {
		t.Fatalf("the JSON form does not parse: %v\n%s", err, view.JSON())
	}
	if a, b := marshal(t, view.Proto()), marshal(t, merged.pb); !bytes.Equal(a, b) {
		t.Fatalf("not the same after JSON\n%s\n%s", view.Text(), merged.Text())
	}
}

func marshal(t *testing.T, pb proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onlyParser matches what the scan leaves to the parser: the inside of texts
// and odd spellings of numbers.
var onlyParser = regexp.MustCompile(`UTF-8|escape|Unicode|invalid character|invalid scalar|invalid value for|unexpected EOF|invalid field name`)

// cutsHold checks that a text without its faulty pieces can be read, every line
// where it was.
func cutsHold(t *testing.T, text []byte) {
	t.Helper()
	plain, pb := blankComments(text), &inferencepb.ModelConfig{}
	s := scan(string(plain), "", pb.ProtoReflect().Descriptor())
	if s.broken {
		return
	}
	rest := applyCuts(plain, s.cuts)
	if bytes.Count(rest, []byte("\n")) != bytes.Count(plain, []byte("\n")) {
		t.Fatalf("the cuts moved lines\n%s", rest)
	}
	if err := prototext.Unmarshal(rest, pb); err != nil && !onlyParser.MatchString(err.Error()) {
		t.Fatalf("%v after the cuts\n%s\n%s", err, text, rest)
	}
}

// explained checks that the further steps take what a draft with faults holds,
// and that no fault of the first step is lost.
func explained(t *testing.T, d *Draft, faults Faults) {
	t.Helper()
	all := d.Inspect(Inspection{Name: "m", Custom: true, Strict: true}, faults).Faults
	if len(all) < len(faults) {
		t.Fatalf("%d faults became %d", len(faults), len(all))
	}
	for _, f := range faults {
		if !slices.Contains(all, f) {
			t.Fatalf("lost: %v", f)
		}
	}
}

func FuzzParse(f *testing.F) {
	addExamples(f, "testdata/triton/*.pbtxt")
	addExamples(f, "testdata/*.transcript")
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text, "config.pbtxt")
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("no faults in %v", err)
			}
			cutsHold(t, text)
			explained(t, d, faults)
			return
		}
		// The scan must not change what a text means to the real parser.
		want := &inferencepb.ModelConfig{}
		if err := prototext.Unmarshal(text, want); err == nil && !bytes.Equal(marshal(t, want), marshal(t, d.pb)) {
			t.Fatal("comments changed the meaning")
		}
		allSteps(t, d)
	})
}

func FuzzParseJSON(f *testing.F) {
	addExamples(f, "testdata/triton/*.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseJSON(text, "")
		if err == nil {
			allSteps(t, d)
			return
		}
		var faults Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("no faults in %v", err)
		}
		explained(t, d, faults)
	})
}

package draft

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
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

func FuzzParse(f *testing.F) {
	addExamples(f, "../testdata/triton/*.pbtxt")
	addExamples(f, "../../repository/inspect/testdata/*.transcript")
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := Parse(text, "config.pbtxt"); err == nil {
			allSteps(t, d)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	addExamples(f, "../testdata/triton/*.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := ParseJSON(text, ""); err == nil {
			allSteps(t, d)
		}
	})
}

package read

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

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

// examples returns real configurations without their comments, by file.
func examples(t *testing.T, name string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../testdata/triton/" + name + ".pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	texts := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(file), ".pbtxt")] = string(blankComments(data))
	}
	return texts
}

func marshal(t *testing.T, pb proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(pb)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stricter matches the faults of texts that protobuf's parser takes: numbers of no
// enum value, a float as boolean and an octal number as float, which that of C++
// does not take either.
var stricter = regexp.MustCompile(`levels of nesting|expected one of [A-Z_0-9, ]+, found "-?[0-9]|expected true or false, found ` +
	`"0*[01][fF]"|expected a number, found "-?0[0-7]+"`)

// sameAsTwin checks that a text means what it means to protobuf's parser.
func sameAsTwin(t *testing.T, text []byte) {
	t.Helper()
	got := &inferencepb.ModelConfig{}
	_, faults := Text(text, "config.pbtxt", got.ProtoReflect())
	twin := &inferencepb.ModelConfig{}
	twinErr := prototext.Unmarshal(blankComments(text), twin)
	switch {
	case len(faults) == 0 && twinErr != nil:
		t.Errorf("protobuf's parser: %v", twinErr)
	case len(faults) == 0 && !bytes.Equal(marshal(t, twin), marshal(t, got)):
		t.Errorf("not what protobuf's parser reads\ngot  %v\nwant %v", got, twin)
	case len(faults) > 0 && twinErr == nil && !stricter.MatchString(faults.Error()):
		t.Errorf("protobuf's parser takes it: %v", faults)
	}
}

func FuzzText(f *testing.F) {
	addExamples(f, "../testdata/triton/*.pbtxt")
	addExamples(f, "../../repository/inspect/testdata/*.transcript")
	f.Fuzz(func(t *testing.T, text []byte) { sameAsTwin(t, text) })
}

// otherNumber matches the faults of JSON that protobuf's parser takes.
var otherNumber = regexp.MustCompile(`expected one of [A-Z_0-9, ]+, found -?[0-9]`)

// FuzzJSON: what protobuf's parser takes means the same here, but for numbers of no
// enum value. Beyond that one, more is taken than by it.
func FuzzJSON(f *testing.F) {
	addExamples(f, "../testdata/triton/*.json")
	f.Add([]byte(`{"maxBatchSize": "3e1", "dynamic_batching": {"priority_queue_policy": {"01": {}, "7": {"max_queue_size": 5.0}}}, ` +
		`"input": [{"dims": [1e2, "-1"]}]}`))
	f.Add([]byte(`{"sequence_batching": {"direct": {"minimum_slot_utilization": "NaN"}, "max_sequence_idle_microseconds": ` +
		`18446744073709551615}, "name": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, twin := &inferencepb.ModelConfig{}, &inferencepb.ModelConfig{}
		_, faults := JSON(data, "config", got.ProtoReflect())
		if protojson.Unmarshal(data, twin) != nil {
			return
		}
		switch {
		case len(faults) > 0 && !otherNumber.MatchString(faults.Error()):
			t.Fatalf("protobuf's parser takes it: %v", faults)
		case len(faults) == 0 && !bytes.Equal(marshal(t, twin), marshal(t, got)):
			t.Fatalf("not what protobuf's parser reads\ngot  %v\nwant %v", got, twin)
		}
	})
}

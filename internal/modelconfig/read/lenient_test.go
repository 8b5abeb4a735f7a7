package read

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// TestLenientJSON has what a real server (2.51) took and refused as the
// configuration of a load request.
func TestLenientJSON(t *testing.T) {
	const ordered = `{"dynamic_batching":{"preserve_ordering":true}}`
	text := func(value string) string {
		quoted, _ := json.Marshal(value)
		return `{"parameters":{"k":{"string_value":` + string(quoted) + `}}}`
	}
	for given, same := range map[string]string{
		`{dynamic_batching: {preserve_ordering : true , } }`:                ordered,
		`{'dynamic_batching': {'preserve_ordering': true}}`:                 ordered,
		"{dynamic_batching\n:{\tpreserve_ordering: true\n,\n}\n,}":          ordered,
		`{"dynamic_batching": {"preserve_ordering": "true"}}`:               ordered,
		`{"dynamic_batching": {"preserve_ordering": "Yes"}}`:                ordered,
		`{"dynamic_batching": {"preserve_ordering": "T"}}`:                  ordered,
		`{"dynamic_batching": {"preserve_ordering": "1"}}`:                  ordered,
		`{"dynamic_batching": {"preserve_ordering": "no"}}`:                 `{"dynamic_batching":{}}`,
		`{"dynamic_batching": {"preferred_batch_size": [1, 2,]}}`:           `{"dynamic_batching":{"preferred_batch_size":[1,2]}}`,
		`{"dynamic_batching": {"max_queue_delay_microseconds": "+5"}}`:      `{"dynamic_batching":{"max_queue_delay_microseconds":5}}`,
		`{"dynamic_batching": {"max_queue_delay_microseconds": 5.}}`:        `{"dynamic_batching":{"max_queue_delay_microseconds":5}}`,
		`{parameters: {k: {string_value: 'a\'b"c'}}}`:                       text(`a'b"c`),
		`{"parameters": {"k": {"string_value": "a\vb\xc\u00e9, {d: 1,}"}}}`: text("a\vbxcé, {d: 1,}"),
		"{\"parameters\": {\"k\": {\"string_value\": \"a\nb\tc\"}}}":        text("a\nb\tc"),
		// In lists words stay words.
		`{sequence_batching: {control_input: [{name: 'S', control: [{kind: 'CONTROL_SEQUENCE_START', ` +
			`bool_false_true: [false, true]}]}]}}`: `{"sequence_batching":{"control_input":[{"name":"S",` +
			`"control":[{"kind":"CONTROL_SEQUENCE_START","bool_false_true":[false,true]}]}]}}`,
	} {
		got, want := &inferencepb.ModelConfig{}, &inferencepb.ModelConfig{}
		if _, faults := JSON([]byte(given), "", got.ProtoReflect()); len(faults) > 0 {
			t.Errorf("%s: %v", given, faults)
			continue
		}
		if _, faults := JSON([]byte(same), "", want.ProtoReflect()); len(faults) > 0 {
			t.Fatal(faults)
		}
		if !bytes.Equal(marshal(t, got), marshal(t, want)) {
			t.Errorf("%s: got %v, want %v", given, got, want)
		}
	}
	for given, at := range map[string]int{ // column of the fault, 0 for another kind of fault
		`{dynamic_batching: {,}}`:                             21,
		`{dynamic_batching: {preserve_ordering: true,,}}`:     45,
		`{dynamic_batching: {preserve_ordering true}}`:        39,
		`{a: 1, instance_group: [{kind: KIND_CPU}]}`:          32,
		`{dynamic_batching: {preserve_ordering: True}}`:       40,
		`{dynamic_batching: {preferred_batch_size: [,1]}}`:    44,
		`{dynamic_batching: {preferred_batch_size: [1,,2]}}`:  46,
		`{dynamic_batching: /* x */ {}}`:                      20,
		`{9a: 1}`:                                             2,
		`{"dynamic_batching": {"preserve_ordering": " yes"}}`: 0,
		`{"dynamic_batching": {"preserve_ordering": 1}}`:      0,
		`{'name': 'x`: 0,
	} {
		_, faults := JSON([]byte(given), "", (&inferencepb.ModelConfig{}).ProtoReflect())
		if len(faults) != 1 || faults[0].Column != at {
			t.Errorf("%s: got %v, want one fault in column %d", given, faults, at)
		}
	}
}

// FuzzLenientJSON: what is JSON already means the same.
func FuzzLenientJSON(f *testing.F) {
	addExamples(f, "../testdata/triton/*.json")
	f.Add([]byte(`{a: 'b\'', "c": [1, 2,], d: 5.,}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, lenientErr := decodeLenient(data)
		want, err := decodeTree(data)
		if err == nil && (lenientErr != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: got %v, %v, want %v", data, got, lenientErr, want)
		}
	})
}

package read

import (
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// TestJSONFaults: each has its field, what is expected there and what was found.
func TestJSONFaults(t *testing.T) {
	for given, want := range map[string]string{
		`{"max_batch_size": 1, "maxBatchSize": 2}`: `f, field max_batch_size: expected "max_batch_size" ` +
			`once, found "max_batch_size" besides "maxBatchSize"`,
		`{"max_batch_size": null, "maxBatchSize": 2}`: "",
		`{"max_batch_size": "0x1F"}`: `f, field max_batch_size: expected an integer (int32), ` +
			`found "0x1F"`,
		`{"max_batch_size": "017"}`: `f, field max_batch_size: expected an integer (int32), ` +
			`found "017"`,
		`{"max_batch_size": 1.5}`: `f, field max_batch_size: expected an integer (int32), ` +
			`found 1.5`,
		`{"max_batch_size": 1e30}`: `f, field max_batch_size: expected an integer (int32), ` +
			`found 1e30`,
		`{"max_batch_size": 0e999999999999999999999}`: "",
		`{"max_batch_size": 15e-1000000000000}`: `f, field max_batch_size: expected an integer (int32), ` +
			`found 15e-1000000000000`,
		`{"max_batch_size": "+1e1"}`: "",
		`{"version_policy": {"specific": {"versions": [9007199254740993.0, "1e2"]}}}`: "",
		`{"sequence_batching": {"direct": {"minimum_slot_utilization": 1e39}}}`: `f, field ` +
			`sequence_batching.direct.minimum_slot_utilization: expected a number, found 1e39`,
		`{"sequence_batching": {"direct": {"minimum_slot_utilization": "inf"}}}`: `f, field ` +
			`sequence_batching.direct.minimum_slot_utilization: expected a number, found "inf"`,
		`{"input": [null]}`: `f, field input[0]: expected an object, found null`,
		`{"dynamic_batching": {"priority_queue_policy": {"x": {}}}}`: `f, field dynamic_batching.priority_queue_policy["x"]: ` +
			`expected an integer of at least 0 (uint64), found "x"`,
		`{"dynamic_batching": {"priority_queue_policy": {"1": {}, "01": {}}}}`: `f, field dynamic_batching.priority_queue_policy["1"]: ` +
			`expected each key once, found "1" besides "01"`,
		`{"parameters": {"a": null}}`: `f, field parameters["a"]: expected an object, found null`,
	} {
		from, faults := JSON([]byte(given), "f", (&inferencepb.ModelConfig{}).ProtoReflect())
		if got := faults.Error(); got != want || from == nil {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
	for given, want := range map[string]string{`[]`: "a list", `null`: "null", `3`: "3"} {
		from, faults := JSON([]byte(given), "f", (&inferencepb.ModelConfig{}).ProtoReflect())
		if from != nil || !strings.HasSuffix(faults.Error(), "expected an object, found "+want) {
			t.Errorf("%s: got %v", given, faults)
		}
	}
}

package check

import (
	"fmt"
	"strconv"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

type controlKind = inferencepb.ModelSequenceBatching_Control_Kind

// sequence checks the sequence batcher.
func (v *validator) sequence(seq *inferencepb.ModelSequenceBatching) {
	v.controls(seq)
	if oldest := seq.GetOldest(); oldest != nil {
		v.preferred("sequence_batching.oldest", "sequence batching preferred batch size", oldest.PreferredBatchSize)
	}
	if direct := seq.GetDirect(); direct != nil {
		if u := direct.MinimumSlotUtilization; !(u >= 0 && u <= 1) { // NaN is neither
			v.add("sequence_batching.direct.minimum_slot_utilization", "0 to 1", fmt.Sprint(u),
				"sequence batching minimum slot utilization must be in range (0.0, 1.0] for %s", v.pb.Name)
		}
	}
}

// controls checks the control tensors: each kind at most once, one list of two
// values for those that are on or off, a datatype for the correlation ID.
func (v *validator) controls(seq *inferencepb.ModelSequenceBatching) {
	const three = "'int32_false_true', 'fp32_false_true' and 'bool_false_true'"
	name := v.pb.Name
	tensors, kinds := map[string]bool{}, map[controlKind]bool{}
	for i, in := range seq.ControlInput {
		at := "sequence_batching.control_input[" + strconv.Itoa(i) + "]"
		switch {
		case in.Name == "":
			v.add(at+".name", "a name", "nothing", "sequence batching control tensor must have a name for %s", name)
		case tensors[in.Name]:
			v.add(at+".name", "each control tensor once", fault.Quote(in.Name)+" again",
				"sequence batching control tensor '%s' is specified for multiple control kinds for %s", in.Name, name)
		}
		tensors[in.Name] = true
		for j, c := range in.Control {
			at := at + ".control[" + strconv.Itoa(j) + "]"
			if v.from.Unread(at + ".kind") {
				continue
			}
			if kinds[c.Kind] {
				v.add(at+".kind", "each kind once", c.Kind.String()+" again",
					"sequence batching specifies multiple %s tensors for %s", c.Kind, name)
			}
			kinds[c.Kind] = true
			lists := controlLists(c)
			if c.Kind == inferencepb.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID {
				if len(lists) > 0 {
					v.add(at+"."+lists[0].field, "only data_type", lists[0].field, "sequence batching must not specify either "+
						"'int32_false_true', 'fp32_false_true' or 'bool_false_true' for %s for %s", c.Kind, name)
				}
				v.correlation(at, c)
				continue
			}
			switch {
			case len(lists) == 0:
				v.add(at, "one of int32_false_true, fp32_false_true, bool_false_true", "none", "sequence batching must specify either "+
					"'int32_false_true', 'fp32_false_true' or 'bool_false_true' for %s for %s", c.Kind, name)
			case len(lists) > 1:
				v.add(at+"."+lists[1].field, "only one of the three lists", strconv.Itoa(len(lists)),
					"sequence batching specifies more than one from "+three+" for %s for %s", c.Kind, name)
			case lists[0].n != 2:
				v.add(at+"."+lists[0].field, "2 entries, for false and for true", strconv.Itoa(lists[0].n),
					"sequence batching control '%s' must have exactly 2 entries for %s for %s", lists[0].field, c.Kind, name)
			}
		}
	}
}

type controlList struct {
	field string
	n     int
}

// controlLists returns the lists of values that a control has.
func controlLists(c *inferencepb.ModelSequenceBatching_Control) []controlList {
	var lists []controlList
	for _, l := range []controlList{
		{"int32_false_true", len(c.Int32FalseTrue)}, {"fp32_false_true", len(c.Fp32FalseTrue)}, {"bool_false_true", len(c.BoolFalseTrue)},
	} {
		if l.n > 0 {
			lists = append(lists, l)
		}
	}
	return lists
}

func (v *validator) correlation(at string, c *inferencepb.ModelSequenceBatching_Control) {
	switch c.DataType {
	case inferencepb.DataType_TYPE_UINT64, inferencepb.DataType_TYPE_INT64, inferencepb.DataType_TYPE_UINT32,
		inferencepb.DataType_TYPE_INT32, inferencepb.DataType_TYPE_STRING:
		return
	default:
	}
	v.add(at+".data_type", "one of those five", c.DataType.String(), "unexpected data type for control %s for %s. "+
		"Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING", c.Kind, v.pb.Name)
}

// states checks the implicit states. Triton says these when it makes the
// scheduler, so its texts have no model name.
func (v *validator) states() {
	for i, s := range v.pb.GetSequenceBatching().GetState() {
		at := "sequence_batching.state[" + strconv.Itoa(i) + "]"
		if n := len(s.InitialState); n > 1 {
			v.add(at+".initial_state", "at most one", strconv.Itoa(n),
				"initial_state field for state input '%s' must contain exactly one or zero element. Found '%d' elements.", s.InputName, n)
		}
		if s.UseGrowableMemory && !s.UseSameBufferForInputOutput && !v.from.Unread(at+".use_same_buffer_for_input_output") {
			v.add(at+".use_growable_memory", "use_same_buffer_for_input_output: true beside it", "false",
				"In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name '%s'.", s.InputName)
		}
		for j, init := range s.InitialState {
			v.initialState(at, j, s, init)
		}
	}
}

func (v *validator) initialState(state string, i int, s *inferencepb.ModelSequenceBatching_State,
	init *inferencepb.ModelSequenceBatching_InitialState,
) {
	at := state + ".initial_state[" + strconv.Itoa(i) + "]"
	if init.DataType != s.DataType && !v.from.Unread(state+".data_type") {
		v.add(at+".data_type", s.DataType.String(), init.DataType.String(),
			"The data type used for 'initial_state' field of state '%s' does not match the state data type.", s.InputName)
	}
	if init.Name == "" {
		v.add(at+".name", "a name", "nothing", "Field 'name' must be set when using initial_state for state input '%s'.", s.InputName)
	}
	switch {
	case v.from.UnreadIn(state + ".dims"):
	case len(init.Dims) != len(s.Dims):
		v.add(at+".dims", strconv.Itoa(len(s.Dims))+" dims", strconv.Itoa(len(init.Dims)),
			"Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input '%s'. %d != %d",
			s.InputName, len(init.Dims), len(s.Dims))
	default:
		for i, d := range init.Dims {
			dim := at + ".dims[" + strconv.Itoa(i) + "]"
			switch {
			case d < 0:
				v.add(dim, "a fixed size", strconv.FormatInt(d, 10),
					"'initial_state' field for state input name '%s' contains variable dimensions.", s.InputName)
			case s.Dims[i] != -1 && d != s.Dims[i]:
				v.add(dim, strconv.FormatInt(s.Dims[i], 10), strconv.FormatInt(d, 10),
					"'initial_state' dim for input name '%s' doesn't match 'state' dim description. %d != %d", s.InputName, d, s.Dims[i])
			}
		}
	}
	switch data := init.StateData.(type) {
	case nil:
		// Triton's text lacks the blank before the quote.
		v.add(at, "zero_data or data_file", "neither", "initial_state setting expects state'%s' to have state_data set", s.InputName)
	case *inferencepb.ModelSequenceBatching_InitialState_DataFile:
		if !Local(data.DataFile) {
			v.add(at+".data_file", "a path inside the initial_state directory", fault.Quote(data.DataFile),
				"initial_state file '%s' of state '%s' is outside model directory", data.DataFile, s.InputName)
		}
	}
}

package draft

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig/encode"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// Merge takes over what a backend completed: the whole configuration as JSON,
// of which only inputs, outputs, max_batch_size, the transaction policy and,
// where the configuration has none, the scheduling choice may differ. Other
// differences are ignored, as Triton does. Defaults are filled in again.
func (d *Draft) Merge(completed []byte) error {
	if completed == nil {
		return nil
	}
	other, err := ParseJSON(completed, "auto-completed")
	if err != nil {
		if faults, ok := errors.AsType[fault.List](err); ok {
			tellUnknown(faults)
		}
		return err
	}
	before := proto.Clone(d.pb)
	mine, theirs := schedulingField(d.pb.ProtoReflect()), schedulingField(other.pb.ProtoReflect())
	if mine != nil && mine != theirs {
		found := "none"
		if theirs != nil {
			found = string(theirs.Name())
		}
		var faults fault.List
		// Triton prints the number of the present choice twice.
		f := d.from.Fault(string(mine.Name()),
			fmt.Sprintf("Cannot update scheduling choice from %d to %[1]d when auto-completing.", mine.Number()),
			string(mine.Name()), found)
		f.Code = backend.Internal
		faults.Add(f)
		return faults
	}
	d.pb.MaxBatchSize = other.pb.MaxBatchSize
	d.pb.Input = other.pb.Input
	d.pb.Output = other.pb.Output
	if mine == nil {
		d.pb.SchedulingChoice = other.pb.SchedulingChoice
	}
	if other.pb.ModelTransactionPolicy != nil {
		d.pb.ModelTransactionPolicy = other.pb.ModelTransactionPolicy
	}
	d.markMerged(before.ProtoReflect())
	d.Normalize()
	return nil
}

// tellUnknown gives faults the text that Triton, whose log alone tells of other
// configurations in JSON, answers a backend library for a field that there is not.
func tellUnknown(faults fault.List) {
	for i := range faults {
		f := &faults[i]
		if f.Unknown == "" {
			continue
		}
		f.Text = f.Unknown + ": Cannot find field."
		if in := strings.TrimSuffix(strings.TrimSuffix(f.Path, f.Unknown), "."); in != "" {
			f.Text = "(" + in + ") " + f.Text
		}
	}
}

// JSON returns the configuration in the form that backends are given.
func (d *Draft) JSON() []byte { return encode.AppendJSON(nil, d.pb.ProtoReflect()) }

// markMerged notes the fields that differ from before: the file's lines say
// nothing about them any more.
func (d *Draft) markMerged(before protoreflect.Message) {
	now := d.pb.ProtoReflect()
	fields := now.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if now.Has(fd) == before.Has(fd) && (!now.Has(fd) || now.Get(fd).Equal(before.Get(fd))) {
			continue
		}
		if d.from.Merged == nil {
			d.from.Merged = map[string]bool{}
		}
		d.from.Merged[string(fd.Name())] = true
	}
}

// schedulingField returns which scheduling choice is set, or nil.
func schedulingField(m protoreflect.Message) protoreflect.FieldDescriptor {
	return m.WhichOneof(m.Descriptor().Oneofs().ByName("scheduling_choice"))
}

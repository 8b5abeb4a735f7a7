package draft

import (
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/modelconfig/read"
)

// Draft is a configuration on its way to a [modelconfig.Config]. The steps, in
// order: [Parse] or [ParseJSON], [Draft.CompleteBackend], [Draft.Normalize],
// [Draft.Validate], [Draft.CheckDirectory], [Draft.NormalizeInstances], for
// backends that know more [Draft.Merge], and [Draft.Finish]. A Draft is not
// safe for concurrent use.
type Draft struct {
	pb   *inferencepb.ModelConfig
	from *fault.Source
	// chosen is the file that cc_model_filenames has for the instances' GPUs, or
	// empty.
	chosen string
}

// New returns an empty configuration, for a model that has no file.
func New() *Draft { return &Draft{pb: &inferencepb.ModelConfig{}, from: &fault.Source{}} }

// Parse reads a configuration in text form, as in config.pbtxt. The name of
// the file is used in faults. A returned error is of type [fault.List] and holds
// every fault found. Where what is left without the faulty pieces can be read, a
// draft comes with it, only for being looked at.
func Parse(text []byte, filename string) (*Draft, error) {
	pb := &inferencepb.ModelConfig{}
	from, faults := read.Text(text, filename, pb.ProtoReflect())
	return made(pb, from), faults.Err()
}

// ParseJSON reads a configuration in the JSON form: a load override, or what a
// backend completed. The filename may be empty. As with [Parse], a draft may come
// with the faults.
func ParseJSON(data []byte, filename string) (*Draft, error) {
	pb := &inferencepb.ModelConfig{}
	from, faults := read.JSON(data, filename, pb.ProtoReflect())
	return made(pb, from), faults.Err()
}

func made(pb *inferencepb.ModelConfig, from *fault.Source) *Draft {
	if from == nil {
		return nil
	}
	return &Draft{pb: pb, from: from}
}

// Clone returns a copy that can be changed on its own.
func (d *Draft) Clone() *Draft {
	return &Draft{pb: proto.Clone(d.pb).(*inferencepb.ModelConfig), from: d.from.Clone(), chosen: d.chosen}
}

// Name returns the model's name, empty when the configuration has none and
// [Draft.CompleteBackend] has not run yet.
func (d *Draft) Name() string { return d.pb.Name }

// Backend returns the name of the backend, empty for ensembles.
func (d *Draft) Backend() string { return d.pb.Backend }

// Runtime returns the name of the file that runs the model, or "" for the
// backend's own.
func (d *Draft) Runtime() string { return d.pb.Runtime }

// Platform returns the platform.
func (d *Draft) Platform() string { return d.pb.Platform }

// File returns the name of the file that it was read from.
func (d *Draft) File() string { return d.from.File }

// Fault makes a fault of a field, with the position of the field or of the nearest
// field around it.
func (d *Draft) Fault(path, text, expected, found string) fault.Fault {
	return d.from.Fault(path, text, expected, found)
}

// Unread reports whether what the user wrote of one of the fields could not be read.
func (d *Draft) Unread(paths ...string) bool { return d.from.Unread(paths...) }

// UnreadIn is Unread for all that stands in a field, however deep.
func (d *Draft) UnreadIn(path string) bool { return d.from.UnreadIn(path) }

// SetUnread notes that nothing is known of a field.
func (d *Draft) SetUnread(path string) {
	if d.from.Gaps == nil {
		d.from.Gaps = fault.NewGaps()
	}
	d.from.Gaps.Add(path)
}

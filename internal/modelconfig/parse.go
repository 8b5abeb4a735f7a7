package modelconfig

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
)

// MaxSize is the longest configuration that is read, in bytes.
const MaxSize = 4 << 20

// Draft is a configuration on its way to a [Config]. The steps, in order:
// [Parse] or [ParseJSON], [Draft.CompleteBackend], [Draft.Normalize],
// [Draft.Validate], [Draft.CheckDirectory], [Draft.NormalizeInstances], for
// backends that know more [Draft.Merge], and [Draft.Finish]. A Draft is not
// safe for concurrent use.
type Draft struct {
	pb     *inferencepb.ModelConfig
	file   string
	places map[string]position
	// merged is set for the fields, at the top level, that came from the backend.
	merged map[string]bool
	// gaps is set where pieces that cannot be read were left out.
	gaps *gaps
	// chosen is the file that cc_model_filenames has for the instances' GPUs, or
	// empty.
	chosen string
}

// NewDraft returns an empty configuration, for a model that has no file.
func NewDraft() *Draft { return &Draft{pb: &inferencepb.ModelConfig{}} }

// Parse reads a configuration in text form, as in config.pbtxt. The name of
// the file is used in faults. A returned error is of type [Faults] and holds
// every fault found. Where what is left without the faulty pieces can be read, a
// draft comes with it, only for [Draft.Inspect].
func Parse(text []byte, filename string) (*Draft, error) {
	if len(text) > MaxSize {
		return nil, tooLarge(filename, len(text))
	}
	pb := &inferencepb.ModelConfig{}
	plain := blankComments(text)
	if i := binaryAt(plain); i >= 0 {
		return nil, notText(filename, plain[:i])
	}
	s := scan(string(plain), filename, pb.ProtoReflect().Descriptor())
	s.faults.sortByPlace()
	if s.broken {
		return nil, s.faults
	}
	// The scan is for faults and places; what the text means is prototext's to say.
	if err := prototext.Unmarshal(applyCuts(plain, s.cuts), pb); err != nil {
		f := translate(err, filename)
		if len(s.cuts) > 0 {
			f.Column = 0 // a cut may have moved it
		}
		s.faults.add(f)
		s.faults.sortByPlace()
		return nil, s.faults
	}
	d := &Draft{pb: pb, file: filename, places: s.places}
	if len(s.faults) == 0 {
		return d, nil
	}
	d.gaps = s.gaps()
	return d, s.faults
}

// binaryAt returns where a text is none: at a zero, or at another control
// character that is not in quotes; -1 for nowhere.
func binaryAt(text []byte) int {
	end := 0 // of the last string
	for i, c := range text {
		switch {
		case c == 0:
			return i
		case i < end || c >= ' ' && c != '"' && c != '\'':
		case c == '"' || c == '\'':
			end = endOfString(text, i)
		case c != '\t' && c != '\n' && c != '\r' && c != '\v' && c != '\f':
			return i
		}
	}
	return -1
}

// notText is the fault of a file that is no text after what stands before.
func notText(filename string, before []byte) Faults {
	var fs Faults
	fs.add(Fault{
		File: filename, Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Expected: "text, such as 'backend: \"python\"'", Found: "binary data",
	})
	return fs
}

func tooLarge(filename string, size int) Faults {
	var fs Faults
	fs.add(Fault{File: filename, Expected: fmt.Sprintf("at most %d bytes", MaxSize), Found: fmt.Sprintf("%d bytes", size)})
	return fs
}

// parseError is how prototext and protojson begin their messages. The blank
// after "proto:" is one of two characters, on purpose.
var parseError = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error )?\(line (\d+):(\d+)\): (.*)$`)

// translate makes a fault of an error of the protobuf library.
func translate(err error, filename string) Fault {
	f := Fault{File: filename}
	text := err.Error()
	if m := parseError.FindStringSubmatch(text); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		f.Column, _ = strconv.Atoi(m[2])
		text = m[3]
	}
	text = strings.TrimLeft(strings.TrimPrefix(text, "proto:"), " \u00a0")
	f.Hint = strings.ReplaceAll(text, f.messageName(), "")
	var fs Faults
	fs.add(f)
	return fs[0]
}

// messageName is the prefix of our message names, which says nothing to users.
func (Fault) messageName() string { return "neso.inference.v1." }

// Clone returns a copy that can be changed on its own.
func (d *Draft) Clone() *Draft {
	return &Draft{
		pb: proto.Clone(d.pb).(*inferencepb.ModelConfig), file: d.file, gaps: d.gaps, chosen: d.chosen,
		places: maps.Clone(d.places), merged: maps.Clone(d.merged),
	}
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

// fault makes a fault of a field, with the place of the field or of the
// nearest field around it.
func (d *Draft) fault(path, text, expected, found string) Fault {
	f := Fault{Text: text, Path: path, Expected: expected, Found: found, File: d.file}
	top, _, _ := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	if d.merged[top] {
		f.File = "auto-completed"
		return f
	}
	for p := path; p != ""; p = parentPath(p) {
		if at, ok := d.places[p]; ok {
			f.Line, f.Column = at.line, at.column
			break
		}
	}
	return f
}

// parentPath cuts the last name or index off a path.
func parentPath(path string) string {
	if strings.HasSuffix(path, "]") {
		if i := strings.LastIndexByte(path, '['); i >= 0 {
			return path[:i]
		}
	}
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

package modelconfig

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// cut is a piece of text that the parser cannot take and the rest can do
// without, with what stands in its place.
type cut struct {
	from, to int
	with     string
}

// applyCuts returns the text with its cuts. Lines stay where they are. Of two
// cuts inside each other the outer one counts.
func applyCuts(text []byte, cuts []cut) []byte {
	slices.SortStableFunc(cuts, func(a, b cut) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	out, at := make([]byte, 0, len(text)+len(cuts)), 0
	for _, c := range cuts {
		if c.from < at {
			continue
		}
		out = append(append(out, text[at:c.from]...), c.with...)
		for _, b := range text[c.from:c.to] {
			if b == '\n' {
				out = append(out, b)
			}
		}
		out = append(out, ' ')
		at = c.to
	}
	return append(out, text[at:]...)
}

// placeholder is a value of the field's type in place of word, a value of
// another type: what was likely meant, where that only lacks quotes or has too
// many, else the default, which validation complains of least.
func placeholder(fd protoreflect.FieldDescriptor, word token) string {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return "{}"
	case protoreflect.StringKind, protoreflect.BytesKind:
		if word.kind == tokenIdent || word.kind == tokenNumber {
			return strconv.Quote(word.text)
		}
		return `""`
	case protoreflect.BoolKind:
		if text := unquote(word.text); text == "true" {
			return text
		}
		return "false"
	case protoreflect.EnumKind:
		if name := unquote(word.text); fd.Enum().Values().ByName(protoreflect.Name(name)) != nil {
			return name
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
	default:
		text := unquote(word.text)
		if ok, _ := isInteger(fd.Kind(), token{kind: tokenNumber, text: text}); ok {
			return text
		}
	}
	return "0"
}

// gaps are the fields whose values are not the user's, because what the user
// wrote was cut out. Faults that follow from that are none of their own.
type gaps struct {
	// paths are the fields themselves.
	paths map[string]bool
	// around are the messages that lack one of their fields.
	around map[string]bool
}

func newGaps() *gaps { return &gaps{paths: map[string]bool{}, around: map[string]bool{}} }

// missing notes that a field was meant by an unknown one of the message at
// parent.
func (g *gaps) missing(parent, field string) {
	if parent != "" {
		g.around[parent] = true
		field = parent + "." + field
	}
	g.paths[field] = true
}

// relations say which fields a check looks at besides the one that it
// complains of.
var relations = []struct{ about, because *regexp.Regexp }{
	{
		regexp.MustCompile(`^(platform|backend|default_model_filename)$|\.profile$|\.is_shape_tensor$|\.is_non_linear_format_io$`),
		regexp.MustCompile(`^(platform|backend|default_model_filename)$`),
	},
	{regexp.MustCompile(`\.preferred_batch_size\[|\.reshape$`), regexp.MustCompile(`^max_batch_size$`)},
	{regexp.MustCompile(`^version_policy`), regexp.MustCompile(`^version_policy`)},
	// The flow of an ensemble's data, and the tensors of ragged batching.
	{
		regexp.MustCompile(`^(input|output)\[\d+\]$|\.(input|output)_map\[|\.(source_input|target_name)\[`),
		regexp.MustCompile(`^(input|output)(\[\d+\](\.name)?)?$|^ensemble_scheduling(\.step(\[\d+\](\.(input|output)_map.*)?)?)?$`),
	},
	{regexp.MustCompile(`\.control\[\d+\]\.kind$`), regexp.MustCompile(`\.control\[\d+\]\.kind$`)},
	{regexp.MustCompile(`\.initial_state\[\d+\]\.(data_type|dims)`), regexp.MustCompile(`\.state\[\d+\]\.(data_type|dims)`)},
	{regexp.MustCompile(`\.use_growable_memory$`), regexp.MustCompile(`\.use_same_buffer_for_input_output$`)},
}

// explain reports whether a fault of the field at path may follow from a gap.
func (g *gaps) explain(path string) bool {
	if g == nil || path == "" {
		return false
	}
	// A kind says which of the fields beside it belong there.
	if g.around[path] || g.paths[path+".kind"] || g.paths[parentPath(path)+".kind"] {
		return true
	}
	for p := path; p != ""; p = parentPath(p) {
		if g.paths[p] {
			return true
		}
	}
	for _, r := range relations {
		if !r.about.MatchString(path) {
			continue
		}
		for gap := range g.paths {
			if r.because.MatchString(gap) {
				return true
			}
		}
	}
	return false
}

// own returns the faults that do not follow from a gap.
func (g *gaps) own(faults Faults) Faults {
	return slices.DeleteFunc(faults, func(f Fault) bool { return g.explain(f.Path) })
}

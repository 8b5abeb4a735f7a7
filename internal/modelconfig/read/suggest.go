package read

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/internal/spelling"
)

// otherNames are names that users bring along from elsewhere.
var otherNames = map[string]string{
	"TYPE_BYTES": "TYPE_STRING", "BYTES": "TYPE_STRING", "STRING": "TYPE_STRING",
	"TYPE_FLOAT": "TYPE_FP32", "FLOAT": "TYPE_FP32", "TYPE_FLOAT32": "TYPE_FP32", "FLOAT32": "TYPE_FP32",
	"TYPE_DOUBLE": "TYPE_FP64", "DOUBLE": "TYPE_FP64", "TYPE_FLOAT64": "TYPE_FP64", "FLOAT64": "TYPE_FP64",
	"TYPE_FLOAT16": "TYPE_FP16", "FLOAT16": "TYPE_FP16", "TYPE_HALF": "TYPE_FP16", "TYPE_BFLOAT16": "TYPE_BF16",
	"TYPE_BOOLEAN": "TYPE_BOOL", "BOOLEAN": "TYPE_BOOL", "TYPE_LONG": "TYPE_INT64", "TYPE_INT": "TYPE_INT32", "INT": "TYPE_INT32",
	"TYPE_BYTE": "TYPE_UINT8", "shape": "dims", "dim": "dims", "dtype": "data_type", "datatype": "data_type", "type": "data_type",
}

// suggestField says which field was meant by an unknown one: the nearest name
// of the same message, or the message that has a field of this name.
func suggestField(name string, md protoreflect.MessageDescriptor) string {
	fields, names := md.Fields(), fieldNames(md)
	if best := nearest(name, names); best != "" {
		return fault.DidYouMean(best)
	}
	for i := range names {
		if sub := fields.Get(i).Message(); sub != nil && !fields.Get(i).IsMap() {
			if sub.Fields().ByName(protoreflect.Name(name)) != nil {
				return "\"" + name + "\" belongs in \"" + names[i] + "\""
			}
		}
	}
	return ""
}

func fieldNames(md protoreflect.MessageDescriptor) []string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = string(md.Fields().Get(i).Name())
	}
	return names
}

func oneofNames(oneof protoreflect.OneofDescriptor) string {
	names := make([]string, oneof.Fields().Len())
	for i := range names {
		names[i] = string(oneof.Fields().Get(i).Name())
	}
	return strings.Join(names, ", ")
}

func suggestEnum(name string, ed protoreflect.EnumDescriptor) string {
	names := enumNames(ed)
	if best := nearest(name, names); best != "" {
		return fault.DidYouMean(best)
	}
	for _, n := range names { // the prefix left out: FP32, GPU, START
		if strings.HasSuffix(n, "_"+strings.ToUpper(name)) {
			return fault.DidYouMean(n)
		}
	}
	return ""
}

// nearest returns the candidate that is most like name, or "" when none is
// like it.
func nearest(name string, candidates []string) string {
	if other := otherNames[name]; other != "" {
		for _, c := range candidates {
			if c == other {
				return c
			}
		}
	}
	return spelling.Nearest(name, candidates)
}

// enumNames lists the values that a user may write.
func enumNames(ed protoreflect.EnumDescriptor) []string {
	values := ed.Values()
	names := make([]string, 0, values.Len())
	for i := range values.Len() {
		if name := string(values.Get(i).Name()); name != "TYPE_INVALID" {
			names = append(names, name)
		}
	}
	return names
}

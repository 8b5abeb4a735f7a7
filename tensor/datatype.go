package tensor

import "fmt"

// Datatype is the element type of a tensor. The zero value is Invalid.
// The numbers equal the data_type numbers of the model configuration.
type Datatype uint8

// The datatypes of the KServe v2 protocol, with their protocol names.
const (
	Invalid Datatype = iota
	Bool             // BOOL, one byte, 0 or 1
	Uint8            // UINT8
	Uint16           // UINT16
	Uint32           // UINT32
	Uint64           // UINT64
	Int8             // INT8
	Int16            // INT16
	Int32            // INT32
	Int64            // INT64
	FP16             // FP16, IEEE 754 binary16
	FP32             // FP32
	FP64             // FP64
	Bytes            // BYTES, variable-size elements
	BF16             // BF16, upper half of an FP32
)

const datatypeCount = int(BF16) + 1

var datatypeNames = [datatypeCount]string{
	"<invalid>", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
	"FP16", "FP32", "FP64", "BYTES", "BF16",
}

var datatypeSizes = [datatypeCount]int{0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 2}

// Datatypes lists every valid datatype.
func Datatypes() []Datatype {
	all := make([]Datatype, 0, datatypeCount-1)
	for d := Bool; int(d) < datatypeCount; d++ {
		all = append(all, d)
	}
	return all
}

// String returns the protocol name, for example "FP32", or "<invalid>".
func (d Datatype) String() string {
	if int(d) >= datatypeCount {
		return datatypeNames[Invalid]
	}
	return datatypeNames[d]
}

// ConfigName returns the name used in config.pbtxt, for example "TYPE_FP32";
// BYTES is called TYPE_STRING there.
func (d Datatype) ConfigName() string {
	switch {
	case d == Bytes:
		return "TYPE_STRING"
	case d == Invalid || int(d) >= datatypeCount:
		return "TYPE_INVALID"
	default:
		return "TYPE_" + datatypeNames[d]
	}
}

// Size returns the number of bytes of one element, or 0 for Bytes and Invalid.
func (d Datatype) Size() int {
	if int(d) >= datatypeCount {
		return 0
	}
	return datatypeSizes[d]
}

// Valid reports whether d is one of the protocol's datatypes.
func (d Datatype) Valid() bool { return d != Invalid && int(d) < datatypeCount }

// ParseDatatype returns the datatype with the given protocol name. It never
// allocates for a known name.
func ParseDatatype(name string) (Datatype, error) {
	if d := LookupDatatype(name); d != Invalid {
		return d, nil
	}
	return Invalid, fmt.Errorf("unknown datatype %q", name)
}

// LookupDatatype returns the datatype with the given protocol name, or Invalid.
func LookupDatatype(name string) Datatype {
	switch name {
	case "FP32":
		return FP32
	case "INT64":
		return Int64
	case "INT32":
		return Int32
	case "BYTES":
		return Bytes
	case "UINT8":
		return Uint8
	case "FP16":
		return FP16
	case "BF16":
		return BF16
	case "FP64":
		return FP64
	case "BOOL":
		return Bool
	case "INT8":
		return Int8
	case "INT16":
		return Int16
	case "UINT16":
		return Uint16
	case "UINT32":
		return Uint32
	case "UINT64":
		return Uint64
	}
	return Invalid
}

package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// npyTypes are the array types that are datatypes of the protocol.
var npyTypes = map[string]tensor.Datatype{
	"|b1": tensor.Bool, "|u1": tensor.Uint8, "<u2": tensor.Uint16, "<u4": tensor.Uint32, "<u8": tensor.Uint64,
	"|i1": tensor.Int8, "<i2": tensor.Int16, "<i4": tensor.Int32, "<i8": tensor.Int64,
	"<f2": tensor.FP16, "<f4": tensor.FP32, "<f8": tensor.FP64,
}

const npyMagic = "\x93NUMPY"

type npyArray struct {
	datatype tensor.Datatype
	shape    tensor.Shape
	data     []byte
}

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*True`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([^)]*)\)`)
)

// parseNPY reads numpy's array file: a magic word, a version, the length of a
// header in Python's syntax, the elements.
func parseNPY(content []byte) (*npyArray, error) {
	if len(content) < 12 || string(content[:6]) != npyMagic {
		return nil, errors.New("expected an array as numpy.save writes it")
	}
	start, n := 10, int64(binary.LittleEndian.Uint16(content[8:]))
	if content[6] >= 2 { // version 2 has a longer length
		start, n = 12, int64(binary.LittleEndian.Uint32(content[8:]))
	}
	if n > int64(len(content)-start) {
		return nil, fmt.Errorf("the header's length of %d exceeds the file", n)
	}
	header, data := string(content[start:start+int(n)]), content[start+int(n):]
	descr, dims := npyDescr.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	switch {
	case descr == nil || dims == nil:
		return nil, fmt.Errorf("expected a header with descr and shape, got %q", header)
	case npyFortran.MatchString(header):
		return nil, errors.New("the array is in Fortran order: save numpy.ascontiguousarray(x)")
	}
	a := &npyArray{datatype: npyTypes[descr[1]], shape: tensor.Shape{}, data: data}
	if a.datatype == tensor.Invalid {
		return nil, fmt.Errorf("arrays of type %q cannot be sent", descr[1])
	}
	for d := range strings.SplitSeq(dims[1], ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		size, err := strconv.ParseInt(d, 10, 64)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("shape (%s): expected numbers", dims[1])
		}
		a.shape = append(a.shape, size)
	}
	want, err := tensor.ByteSize(a.datatype, a.shape)
	if err != nil {
		return nil, err
	}
	if want != int64(len(data)) {
		return nil, fmt.Errorf("shape %s of %s takes %d bytes, the file has %d", a.shape, a.datatype, want, len(data))
	}
	return a, nil
}

// appendNPY appends an output as an array file.
func appendNPY(b []byte, o *client.Output) ([]byte, error) {
	descr := ""
	for name, d := range npyTypes {
		if d == o.Datatype {
			descr = name
		}
	}
	if descr == "" {
		return nil, fmt.Errorf("numpy has no arrays of %s, name a file without .npy for the bytes", o.Datatype)
	}
	dims := strings.Trim(o.Shape.String(), "[]")
	if len(o.Shape) == 1 {
		dims += ","
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, dims)
	const prefix = len(npyMagic) + 4
	pad := (tensor.Alignment - (prefix+len(header)+1)%tensor.Alignment) % tensor.Alignment
	header += strings.Repeat(" ", pad) + "\n"
	b = append(b, npyMagic+"\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), o.Data...), nil
}

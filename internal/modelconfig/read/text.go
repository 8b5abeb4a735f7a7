package read

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/nesoserve/neso/internal/modelconfig/fault"
)

// MaxSize is the longest configuration that is read, in bytes.
const MaxSize = 4 << 20

// Text reads a configuration in text form, as in config.pbtxt, into a message. The
// name of the file is used in faults, of which every one found is returned. The
// source is nil where nothing can be made of the text; with faults it has gaps in
// place of the faulty pieces.
func Text(text []byte, filename string, to protoreflect.Message) (*fault.Source, fault.List) {
	if len(text) > MaxSize {
		return nil, tooLarge(filename, len(text))
	}
	plain := blankComments(text)
	if i := binaryAt(plain); i >= 0 {
		return nil, notText(filename, plain[:i])
	}
	s := scan(string(plain), filename, to)
	s.faults.SortByPosition()
	if s.broken {
		return nil, s.faults
	}
	from := &fault.Source{File: filename, Places: s.places}
	if len(s.faults) > 0 {
		from.Gaps = s.gaps()
	}
	return from, s.faults
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
func notText(filename string, before []byte) fault.List {
	var fs fault.List
	fs.Add(fault.Fault{
		File: filename, Line: bytes.Count(before, []byte("\n")) + 1, Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Expected: "text, such as 'backend: \"python\"'", Found: "binary data",
	})
	return fs
}

func tooLarge(filename string, size int) fault.List {
	var fs fault.List
	fs.Add(fault.Fault{File: filename, Expected: fmt.Sprintf("at most %d bytes", MaxSize), Found: fmt.Sprintf("%d bytes", size)})
	return fs
}

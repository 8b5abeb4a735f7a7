package fault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	Code backend.Code
	// Text is what Triton says of this fault; clients match it, so it comes
	// first. It is empty where Triton has no text of its own, as for syntax.
	Text string
	// File is the file's name as the caller gave it, empty for a configuration
	// that has none. Line and Column count from 1; 0 means unknown.
	File         string
	Line, Column int
	// Path is the field, for example "input[0].dims[1]".
	Path            string
	Expected, Found string
	// Unknown is the name of a field of a JSON form that the message does not have.
	Unknown string
	// Hint says what to do, for example which name was meant.
	Hint string
	// Lacks is the name of the file that is missing: errors that name it tell this
	// fault too.
	Lacks string
}

// Error returns the fault in one line: Triton's text, where it has one,
// then the position, what was expected and what was found.
func (f Fault) Error() string {
	detail := f.detail()
	if f.Text == "" {
		return detail
	}
	if detail == "" {
		return f.Text
	}
	return f.Text + " (" + detail + ")"
}

func (f Fault) detail() string {
	var where []string
	if position := f.position(); position != "" {
		where = append(where, position)
	}
	if f.Path != "" {
		where = append(where, "field "+f.Path)
	}
	var what []string
	if f.Expected != "" {
		what = append(what, "expected "+f.Expected)
	}
	if f.Found != "" {
		what = append(what, "found "+f.Found)
	}
	text := strings.Join(where, ", ")
	if len(what) > 0 {
		if text != "" {
			text += ": "
		}
		text += strings.Join(what, ", ")
	}
	if f.Hint != "" {
		switch {
		case text != "" && len(what) > 0:
			text += "; "
		case text != "":
			text += ": "
		}
		text += f.Hint
	}
	return text
}

// position is file:line, with the column where the fault is one of syntax: only
// there the column says more than the line.
func (f Fault) position() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Text == "" && f.Column > 0:
		return f.File + ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column)
	default:
		return f.File + ":" + strconv.Itoa(f.Line)
	}
}

// List is every fault of one configuration, as an error. It unwraps to a
// [backend.Error] with the code of the first fault and the text of all.
type List []Fault

// Error returns all faults, one in each line.
func (fs List) Error() string {
	lines := make([]string, len(fs))
	for i := range fs {
		lines[i] = fs[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the error with its code.
func (fs List) Unwrap() error {
	code := backend.InvalidArg
	if len(fs) > 0 {
		code = fs[0].Code
	}
	return &backend.Error{Code: code, Message: fs.Error()}
}

// Max bounds what one broken file can report.
const Max = 100

// Add appends a fault unless there are enough of them already.
func (fs *List) Add(f Fault) {
	if len(*fs) >= Max {
		return
	}
	if f.Code == backend.Unknown {
		f.Code = backend.InvalidArg
	}
	*fs = append(*fs, f)
}

// Err returns the faults as an error, or nil when there are none.
func (fs List) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// SortByPosition puts faults in the order of the file, those without a position last.
func (fs List) SortByPosition() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Quote prints a foreign value in a message, shortened.
func Quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}

// Take appends the faults of a step.
func (fs *List) Take(more List) {
	for _, f := range more {
		fs.Add(f)
	}
}

// TakeNew appends the faults that are not in the list yet.
func (fs *List) TakeNew(more List) {
	for _, f := range more {
		if !slices.Contains(*fs, f) {
			fs.Add(f)
		}
	}
}

// Of returns what a step found: the faults that an error is, or none.
func Of(err error) List {
	var faults List
	errors.As(err, &faults)
	return faults
}

// DidYouMean is the hint for a name that none has and that is like another.
func DidYouMean(name string) string { return "did you mean \"" + name + "\"?" }

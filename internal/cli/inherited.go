package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxInherited bounds what is read from --options-fd.
const maxInherited = 1 << 20

// inherited applies the options that lie in the descriptor of --options-fd, one
// a line, and returns the names of all that were given. What they say stands in
// no list of processes and no environment, which workers would inherit.
func (o *serveOptions) inherited(table []option, given []string) ([]string, error) {
	if o.optionsFD < 3 {
		return given, &usageError{"--options-fd names an inherited descriptor from 3 on"}
	}
	file := os.NewFile(uintptr(o.optionsFD), "options")
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInherited+1))
	if err == nil && len(text) > maxInherited {
		err = fmt.Errorf("more than %d bytes", maxInherited)
	}
	if err != nil {
		return given, &usageError{fmt.Sprintf("--options-fd: %v", err)}
	}
	var args []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			args = append(args, line)
		}
	}
	o.optionsFD = -1
	more, err := parse(table, args, o)
	if err == nil && o.optionsFD >= 0 {
		err = &usageError{"--options-fd cannot be among the options of a descriptor"}
	}
	return append(given, more...), err
}

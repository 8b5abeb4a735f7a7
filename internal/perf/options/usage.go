package options

import (
	"fmt"
	"io"
)

// Usage prints all options.
func Usage(out io.Writer, program string) {
	fmt.Fprintf(out, "Usage: %s -m MODEL [options]\n\nMeasures a model of a running server. Takes perf_analyzer's options.\n",
		program)
	for _, group := range []string{general, measure, sequence, input, request, server, reports, old} {
		fmt.Fprintf(out, "\n%s\n", group)
		for _, e := range table() {
			if e.group != group {
				continue
			}
			name := "    --" + e.name
			switch {
			case len(e.name) == 1:
				name = "-" + e.name
			case e.letter != "":
				name = "-" + e.letter + ", --" + e.name
			}
			if e.value != "" {
				name += " " + e.value
			}
			if len(name) > 38 {
				fmt.Fprintf(out, "  %s\n  %-38s  %s\n", name, "", e.help)
				continue
			}
			fmt.Fprintf(out, "  %-38s  %s\n", name, e.help)
		}
	}
}

// Names are the names of all options, for the shell's completion.
func Names() []string {
	var names []string
	for _, e := range table() {
		if len(e.name) > 1 {
			name := "--" + e.name
			if e.value != "" {
				name += "="
			}
			names = append(names, name)
		}
	}
	return names
}

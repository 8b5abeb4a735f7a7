package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/internal/spelling"
)

// option is one option of `neso serve`.
type option struct {
	name string
	// kind is shown in the usage: "boolean", "integer", "float", "string", a
	// pattern such as "<string>=<string>", or "" for a flag without an argument.
	kind string
	// group is the heading in the usage.
	group string
	help  string
	// set takes one value; repeated options call it repeatedly.
	set func(o *serveOptions, value string) error
	// unused marks an option that has no meaning for Neso: it is accepted and
	// reported once.
	unused string
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// unexpected is how the error for an argument that is no option begins.
const unexpected = "Unexpected argument: "

// parse applies args to o as getopt_long does: --name=value and --name value,
// unique prefixes of names, repeats. A boolean may also stand alone, for true.
// It returns the names of the options that were given.
func parse(table []option, args []string, o *serveOptions) ([]string, error) {
	var given []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			if i+1 < len(args) {
				return given, &usageError{unexpected + args[i+1]}
			}
			break
		}
		if !strings.HasPrefix(arg, "--") {
			return given, &usageError{unexpected + arg}
		}
		name, value, hasValue := strings.Cut(arg[2:], "=")
		opt, err := find(table, name)
		if err != nil {
			return given, err
		}
		switch {
		case opt.kind == "" && hasValue:
			return given, &usageError{fmt.Sprintf("option '--%s' doesn't allow an argument", opt.name)}
		case opt.kind == "boolean" && !hasValue && (i+1 >= len(args) || strings.HasPrefix(args[i+1], "--")):
			value = "true"
		case opt.kind != "" && !hasValue:
			if i+1 >= len(args) {
				return given, &usageError{fmt.Sprintf("option '--%s' requires an argument", opt.name)}
			}
			i++
			value = args[i]
		}
		if !slices.Contains(given, opt.name) {
			given = append(given, opt.name)
		}
		if opt.set == nil {
			continue
		}
		if err := opt.set(o, value); err != nil {
			if usage, ok := errors.AsType[*usageError](err); ok {
				return given, usage // says itself which part of the option is bad
			}
			return given, &usageError{fmt.Sprintf("Bad option: \"--%s\".\n%v", opt.name, err)}
		}
	}
	return given, nil
}

func find(table []option, name string) (*option, error) {
	var matches []*option
	for i := range table {
		if table[i].name == name {
			return &table[i], nil
		}
		if strings.HasPrefix(table[i].name, name) {
			matches = append(matches, &table[i])
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		text := fmt.Sprintf("unrecognized option '--%s'", name)
		if near := nearest(table, name); near != "" {
			text += fmt.Sprintf(", did you mean '--%s'?", near)
		}
		return nil, &usageError{text}
	}
	names := make([]string, len(matches))
	for i, m := range matches {
		names[i] = "'--" + m.name + "'"
	}
	return nil, &usageError{fmt.Sprintf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))}
}

// nearest returns the option that is most like name, "" if none is.
func nearest(table []option, name string) string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].name
	}
	return spelling.Nearest(name, names)
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "on", "1":
		return true, nil
	case "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("invalid value for bool option: %s", s)
}

func parseInt(s string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	switch {
	case err == nil:
		return int(n), nil
	case strings.Contains(err.Error(), "out of range"):
		return 0, fmt.Errorf("Provided option value is out of bound. Got %s", s) //nolint:staticcheck // Triton's text
	}
	return 0, fmt.Errorf("Invalid option value. Got %s, expected a whole number", s) //nolint:staticcheck // Triton's text
}

// parsePair splits "<first><delimiter><second>".
func parsePair(s, delimiter string) (first, second string, err error) {
	first, second, ok := strings.Cut(s, delimiter)
	if !ok {
		//nolint:staticcheck // Triton's text
		return "", "", fmt.Errorf("Cannot parse pair option due to incorrect number of inputs.--<pair option> argument requires format "+
			"<first>%s<second>. Found: %s", delimiter, s)
	}
	return first, second, nil
}

// parseSetting splits "<what>,<setting>=<value>" or "<setting>=<value>".
func parseSetting(optionName, what, s string) (name, setting, value string, err error) {
	head, value, ok := strings.Cut(s, "=")
	if !ok || value == "" || head == "" {
		return "", "", "", fmt.Errorf("--%s option format is '<%s>,<setting>=<value>'. Got %s", optionName, what, s)
	}
	name, setting, ok = strings.Cut(head, ",")
	if !ok {
		return "", head, value, nil
	}
	if name == "" {
		//nolint:staticcheck // Triton's text
		return "", "", "", fmt.Errorf("No %s specified. --%s option format is <%s>,<setting>=<value> or <setting>=<value>. Got %s",
			strings.TrimSuffix(what, " name"), optionName, what, s)
	}
	if setting == "" {
		return "", "", "", fmt.Errorf("--%s option format is '<%s>,<setting>=<value>'. Got %s", optionName, what, s)
	}
	return name, setting, value, nil
}

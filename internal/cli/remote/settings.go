package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
)

func logCommand(out io.Writer) *cobra.Command {
	return command(&cobra.Command{
		Use:     "log [SETTING=VALUE...]",
		Short:   "Show or change what a running server logs",
		Example: "  neso log\n  neso log log_verbose_level=1 log_info=false",
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		change, err := logChange(args)
		if err != nil {
			return err
		}
		text, err := c.LogSettings(cmd.Context(), change)
		if err != nil {
			return err
		}
		if err := unknown(change, text); err != nil {
			return err
		}
		return printJSON(out, text)
	})
}

func traceCommand(out io.Writer) *cobra.Command {
	var model string
	c := command(&cobra.Command{
		Use:   "trace [SETTING=VALUE...]",
		Short: "Show or change what a running server traces",
		Long: `Shows the trace settings of the server, or with --model those of a model, after
changing the ones given. An empty value clears a setting. trace_level takes a
list with commas.`,
		Example: "  neso trace trace_level=TIMESTAMPS trace_rate=100\n  neso trace --model digits trace_rate=",
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		change, err := traceChange(args)
		if err != nil {
			return err
		}
		text, err := c.TraceSettings(cmd.Context(), model, change)
		if err != nil {
			return err
		}
		if err := unknown(change, text); err != nil {
			return err
		}
		return printJSON(out, text)
	})
	c.Flags().StringVar(&model, "model", "", "a model's own settings")
	return c
}

// unknown names a setting that the server does not have: it ignores such, as the
// protocol wants it.
func unknown(change map[string]any, settings json.RawMessage) error {
	var known map[string]json.RawMessage
	if err := json.Unmarshal(settings, &known); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if _, ok := known[name]; !ok {
			return fmt.Errorf("the server has no setting '%s', it has %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}

func splitSetting(arg string) (name, value string, err error) {
	name, value, ok := strings.Cut(arg, "=")
	if !ok || name == "" {
		return "", "", fmt.Errorf("argument %q: expected NAME=VALUE", arg)
	}
	return name, value, nil
}

// logChange gives values their JSON type: booleans and numbers are such, the
// rest are strings.
func logChange(args []string) (map[string]any, error) {
	change := map[string]any{}
	for _, arg := range args {
		name, value, err := splitSetting(arg)
		if err != nil {
			return nil, err
		}
		var typed any
		if json.Unmarshal([]byte(value), &typed) == nil {
			change[name] = json.RawMessage(value)
		} else {
			change[name] = value
		}
	}
	return change, nil
}

// traceChange makes the level a list and leaves all else strings, as the
// protocol wants them.
func traceChange(args []string) (map[string]any, error) {
	change := map[string]any{}
	for _, arg := range args {
		name, value, err := splitSetting(arg)
		switch {
		case err != nil:
			return nil, err
		case value == "":
			change[name] = nil
		case name == "trace_level":
			change[name] = strings.Split(value, ",")
		default:
			change[name] = value
		}
	}
	return change, nil
}

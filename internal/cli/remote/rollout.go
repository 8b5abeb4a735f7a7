package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/nesoserve/neso/client"
)

func labelCommand(out io.Writer) *cobra.Command {
	return command(&cobra.Command{
		Use:   "label MODEL [LABEL=VERSION...]",
		Short: "Show or move the labels of a model's versions on a running server",
		Long: `Moves labels, such as stable and canary, to versions of a model that are loaded:
all that are named at once, so that each request sees either the old places or the
new ones. 'LABEL=' takes a label away; without labels those that there are are shown.
The server must run with --model-control-mode=explicit; otherwise the file
rollout.yaml in the model's directory has the labels.`,
		Example: "  neso label digits\n  neso label digits canary=3\n  neso label digits stable=3 canary=",
		Args:    cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		labels := map[string]any{}
		for _, arg := range args[1:] {
			name, value, err := splitSetting(arg)
			if err != nil {
				return fmt.Errorf("argument %q: expected LABEL=VERSION", arg)
			}
			if labels[name] = nil; value == "" {
				continue
			}
			version, err := strconv.ParseInt(value, 10, 64)
			if err != nil || version < 1 {
				return fmt.Errorf("argument %q: expected the number of a version behind '=', or nothing", arg)
			}
			labels[name] = version
		}
		r, err := changeRollout(cmd, c, args[0], map[string]any{"labels": labels}, len(labels) > 0)
		if err != nil {
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "LABEL\tVERSION")
		for _, v := range r.Versions {
			for _, name := range v.Labels {
				fmt.Fprintf(w, "%s\t%s\n", name, v.Version)
			}
		}
		return w.Flush()
	})
}

func rolloutCommand(out io.Writer) *cobra.Command {
	var file string
	var resume, asJSON bool
	c := command(&cobra.Command{
		Use:   "rollout MODEL [VERSION=WEIGHT...]",
		Short: "Show or change how requests are shared among a model's versions on a running server",
		Long: `Shows the versions of a model with their labels, their shares of the requests that
name no version, and what has happened; before that it changes the rules, if weights
are given (of versions or of labels), or a file with rules as in rollout.yaml: a section
that the file lacks stays as it is, one that is null is taken away. --resume gives a
version that was stepped back from its share again. The server must run with
--model-control-mode=explicit.`,
		Example: "  neso rollout digits\n  neso rollout digits stable=95 canary=5\n  neso rollout digits --file rules.yaml\n" +
			"  neso rollout digits --resume",
		Args: cobra.MinimumNArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		change := map[string]any{}
		if file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			if err := yaml.Unmarshal(text, &change); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		if len(args) > 1 {
			weights := map[string]int64{}
			for _, arg := range args[1:] {
				name, value, err := splitSetting(arg)
				weight, bad := strconv.ParseInt(value, 10, 64)
				if err != nil || bad != nil {
					return fmt.Errorf("argument %q: expected VERSION=WEIGHT or LABEL=WEIGHT, a weight is a whole number", arg)
				}
				weights[name] = weight
			}
			change["weights"] = weights
		}
		if resume {
			change["resume"] = true
		}
		r, err := changeRollout(cmd, c, args[0], change, len(change) > 0)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, r.text)
		}
		return r.print(out)
	})
	c.Flags().StringVarP(&file, "file", "f", "", "a file with rules, in YAML or JSON")
	c.Flags().BoolVar(&resume, "resume", false, "end a step back")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// shares are what a server says of the versions of a model.
type shares struct {
	text        json.RawMessage
	SteppedBack *struct{ At, Version, Why string } `json:"stepped_back"`
	Difference  string                             `json:"last_difference"`
	Versions    []struct {
		Version            string
		Labels             []string
		Share              float64
		Requests, Mirrored map[string]int64
	}
}

// changeRollout changes the rules where there is something to change, and returns what
// holds then.
func changeRollout(cmd *cobra.Command, c *client.Client, model string, change map[string]any, changes bool) (*shares, error) {
	r := &shares{}
	var err error
	if changes {
		var body []byte
		if body, err = json.Marshal(change); err != nil {
			return nil, err
		}
		r.text, err = c.SetRollout(cmd.Context(), model, body)
	} else {
		r.text, err = c.Rollout(cmd.Context(), model)
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(r.text, r) != nil {
		return nil, errors.New("the server does not say how requests are shared among versions: is it Neso?")
	}
	return r, nil
}

func (r *shares) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tLABELS\tSHARE\tREQUESTS\tMIRRORED\tEQUAL\tCLOSE\tDIFFERENT\tFAILED\tDROPPED")
	for _, v := range r.Versions {
		var requests, mirrored int64
		for _, n := range v.Requests {
			requests += n
		}
		for _, n := range v.Mirrored {
			mirrored += n
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f %%\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", v.Version, strings.Join(v.Labels, ","), v.Share*100, requests, mirrored,
			v.Mirrored["equal"], v.Mirrored["close"], v.Mirrored["different"], v.Mirrored["failed"], v.Mirrored["dropped"])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s := r.SteppedBack; s != nil {
		fmt.Fprintf(out, "stepped back from version %s at %s: %s\n", s.Version, s.At, s.Why)
	}
	if r.Difference != "" {
		fmt.Fprintln(out, "last difference:", r.Difference)
	}
	return nil
}

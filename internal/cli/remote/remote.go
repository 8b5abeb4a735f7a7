// Package remote owns the commands that ask or tell a running server something,
// on the public package client. Open remote.go first.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/spelling"
)

// remote are the options of commands that talk to a running server.
type remote struct {
	url      string
	headers  []string
	identity identity
}

// flags adds the options to c.
func (r *remote) flags(c *cobra.Command) *cobra.Command {
	address := os.Getenv("NESO_URL")
	if address == "" {
		address = "localhost:8000"
	}
	c.Flags().StringVarP(&r.url, "url", "u", address,
		"the server's HTTP address, host:port, a URL or unix:/path; $NESO_URL changes the default")
	c.Flags().StringArrayVarP(&r.headers, "header", "H", nil,
		"a header of every request, 'Name: value'; repeatable; a key of --auth-file is better in $NESO_KEY")
	r.identity.flags(c)
	return c
}

func (r *remote) client() (*client.Client, error) {
	c := client.New(r.url)
	c.Header = http.Header{}
	if key := os.Getenv("NESO_KEY"); key != "" {
		c.Header.Set("X-API-Key", key)
	}
	for _, h := range r.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q: expected 'Name: value'", h)
		}
		c.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return c, r.identity.apply(c)
}

// command makes a command that calls run with a client.
func command(c *cobra.Command, run func(cmd *cobra.Command, c *client.Client, args []string) error) *cobra.Command {
	r := &remote{}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := r.client()
		if err != nil {
			return err
		}
		err = run(cmd, to, args)
		if _, noJSON := errors.AsType[*json.SyntaxError](err); noJSON {
			if foreign := recognize(cmd.Context(), to, r.url); foreign != nil {
				return foreign
			}
		}
		return r.explain(err)
	}
	if strings.Contains(c.Use, "MODEL") {
		c.ValidArgsFunction = r.completeModel
	}
	return r.flags(c)
}

// recognize returns an error if what answers at url is no server of the protocol: a
// page of some other server, with the status that says success.
func recognize(ctx context.Context, c *client.Client, url string) error {
	if text, err := c.ServerMetadata(ctx); err == nil && !json.Valid(text) {
		return fmt.Errorf("%s is no server of the KServe v2 protocol: what it answers is no JSON", url)
	}
	return nil // what else is wrong, the command meets itself
}

// explain says of a server that cannot be reached what to do about it.
func (r *remote) explain(err error) error {
	failed, ok := errors.AsType[*net.OpError](err)
	if bad, is := errors.AsType[*url.Error](err); is && !ok && (bad.Op == "parse" || strings.Contains(bad.Err.Error(), "no Host")) {
		return fmt.Errorf("--url %s: expected HOST:PORT, a URL, or unix:/path: %w", r.url, bad.Err)
	}
	if bad, is := errors.AsType[*url.Error](err); is && notHTTP(bad.Err) {
		return fmt.Errorf("the server at %s does not speak HTTP, or not this way: --url names another port", r.url)
	}
	if !ok || failed.Op != "dial" {
		return err
	}
	why := failed.Err
	if system, ok := errors.AsType[*os.SyscallError](why); ok {
		why = system.Err
	}
	return fmt.Errorf("no server answers at %s: %w\nStart one with 'neso serve', or say where it is with --url or $NESO_URL", r.url, why)
}

// notHTTP reports whether a call failed for an answer that is none of HTTP, as package
// net/http says it, which ends the connection under a request that is still being sent.
func notHTTP(err error) bool {
	text := err.Error()
	return errors.Is(err, net.ErrClosed) || strings.Contains(text, "malformed HTTP") || strings.Contains(text, "readLoopPeekFailLocked")
}

// completeModel offers the shell the names of the server's models.
func (r *remote) completeModel(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	to, err := r.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	list, err := to.Index(ctx, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// completionTimeout is how long a shell waits for a server that may not run.
const completionTimeout = 500 * time.Millisecond

// Commands are those that ask or tell a running server something; they print to out.
func Commands(out io.Writer) []*cobra.Command {
	return []*cobra.Command{
		readyCommand(out), indexCommand(out), loadCommand(out), unloadCommand(out), statsCommand(out),
		topCommand(out), logCommand(out), traceCommand(out), inferCommand(out), labelCommand(out), rolloutCommand(out),
	}
}

// splitVersion takes MODEL or MODEL:VERSION apart.
func splitVersion(arg string) (model, version string, err error) {
	model, version, found := strings.Cut(arg, ":")
	if _, bad := strconv.ParseUint(version, 10, 63); found && bad != nil && !rollout.IsLabel(version) || model == "" {
		return "", "", fmt.Errorf("%s: expected MODEL or MODEL:VERSION, a version is a number or a label", arg)
	}
	return model, version, nil
}

func indexCommand(out io.Writer) *cobra.Command {
	var ready, asJSON bool
	c := command(&cobra.Command{
		Use:   "index",
		Short: "List the models of a running server",
		Args:  cobra.NoArgs,
	}, func(cmd *cobra.Command, c *client.Client, _ []string) error {
		list, err := c.Index(cmd.Context(), ready)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, list)
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "MODEL\tVERSION\tSTATE\tREASON")
		for _, m := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, m.Version, m.State, strings.ReplaceAll(strings.TrimSpace(m.Reason), "\n", " "))
		}
		return w.Flush()
	})
	c.Flags().BoolVar(&ready, "ready", false, "only those that are ready")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func loadCommand(out io.Writer) *cobra.Command {
	var config string
	var files []string
	c := command(&cobra.Command{
		Use:     "load MODEL",
		Short:   "Load or reload a model of a running server",
		Long:    "Returns when the model is ready. The server must run with --model-control-mode=explicit.",
		Example: "  neso load digits\n  neso load digits --config config.json --file 1/model.py=./model.py",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		o, err := override(config, files)
		if err == nil {
			err = recognize(cmd.Context(), c, cmd.Flag("url").Value.String())
		}
		if err == nil {
			err = c.Load(cmd.Context(), args[0], o)
		}
		if err == nil {
			_, err = fmt.Fprintln(out, "loaded", args[0])
		}
		return err
	})
	c.Flags().StringVar(&config, "config", "", "a file with the configuration as JSON, instead of the repository's")
	c.Flags().StringArrayVar(&files, "file", nil,
		"PATH=FILE puts FILE at PATH of the model's directory, instead of the repository's; needs --config")
	return c
}

// override reads the files that replace what the repository has.
func override(config string, files []string) (*client.Override, error) {
	if config == "" && len(files) == 0 {
		return nil, nil
	}
	if config == "" {
		return nil, errors.New("--file needs --config")
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%s: expected the configuration as JSON ('neso config show %s --format json' prints it)", config,
			filepath.Dir(config))
	}
	o := &client.Override{Config: string(text), Files: map[string][]byte{}}
	for _, f := range files {
		path, file, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("--file %q: expected PATH=FILE, such as 1/model.py=./model.py", f)
		}
		if o.Files[path], err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("--file %s: %w", path, err)
		}
	}
	return o, nil
}

// known returns an error for a model that the server does not have: to unload one
// succeeds, and is a slip of the pen. A server that does not tell its models has
// all.
func known(ctx context.Context, c *client.Client, model string) error {
	list, err := c.Index(ctx, false)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name
	}
	if slices.Contains(names, model) {
		return nil
	}
	text := fmt.Sprintf("no model '%s'", model)
	if near := spelling.Nearest(model, names); near != "" {
		text += ", did you mean '" + near + "'?"
	}
	return errors.New(text)
}

func unloadCommand(out io.Writer) *cobra.Command {
	var dependents bool
	c := command(&cobra.Command{
		Use:   "unload MODEL",
		Short: "Unload a model of a running server",
		Args:  cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		err := recognize(cmd.Context(), c, cmd.Flag("url").Value.String())
		if err == nil {
			err = known(cmd.Context(), c, args[0])
		}
		if err != nil {
			return err
		}
		err = c.Unload(cmd.Context(), args[0], dependents)
		if err == nil {
			_, err = fmt.Fprintln(out, "unloading", args[0])
		}
		return err
	})
	c.Flags().BoolVar(&dependents, "dependents", false, "also the models that an ensemble is made of")
	return c
}

func statsCommand(out io.Writer) *cobra.Command {
	var asJSON bool
	c := command(&cobra.Command{
		Use:   "stats [MODEL[:VERSION]]",
		Short: "Show how many requests a running server has answered, and how fast",
		Args:  cobra.MaximumNArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		model, version := "", ""
		if len(args) == 1 {
			var err error
			if model, version, err = splitVersion(args[0]); err != nil {
				return err
			}
		}
		text, err := c.Statistics(cmd.Context(), model, version)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(out, text)
		}
		return printStatistics(out, text)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print all there is, as JSON")
	return c
}

// printStatistics prints a line a version: counts, and mean times in microseconds.
func printStatistics(out io.Writer, text []byte) error {
	type duration struct{ Count, NS float64 }
	var all struct {
		Models []struct {
			Name       string              `json:"name"`
			Version    string              `json:"version"`
			Inferences uint64              `json:"inference_count"`
			Executions uint64              `json:"execution_count"`
			Durations  map[string]duration `json:"inference_stats"`
		} `json:"model_stats"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tVERSION\tINFERENCES\tEXECUTIONS\tFAILED\tREQUEST µs\tQUEUE µs\tCOMPUTE µs\t")
	for _, m := range all.Models {
		mean := func(name string) float64 {
			d := m.Durations[name]
			return d.NS / max(d.Count, 1) / 1000
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t\n", m.Name, m.Version, m.Inferences, m.Executions, m.Durations["fail"].Count,
			mean("success"), mean("queue"), mean("compute_infer"))
	}
	return w.Flush()
}

// printJSON prints a value, indented.
func printJSON(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, b.String())
	return err
}

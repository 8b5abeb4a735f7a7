package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
)

// ErrNotReady ends a command that has said so already, with exit status 1.
var ErrNotReady = errors.New("not ready")

func readyCommand(out io.Writer) *cobra.Command {
	return command(&cobra.Command{
		Use:     "ready [MODEL[:VERSION]]",
		Short:   "Say whether a running server, or a model, is ready",
		Long:    "Prints 'ready' with exit status 0, or 'not ready' with exit status 1 and,\non standard error, the reason.",
		Example: "  neso ready && neso ready digits",
		Args:    cobra.MaximumNArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		var ready bool
		var err error
		var model, version string
		if len(args) == 0 {
			ready, err = c.Ready(cmd.Context())
		} else {
			if model, version, err = splitVersion(args[0]); err != nil {
				return err
			}
			ready, err = c.ModelReady(cmd.Context(), model, version)
		}
		switch {
		case err != nil:
			return err
		case ready:
			if err := recognize(cmd.Context(), c, cmd.Flag("url").Value.String()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(out, "ready")
			return err
		}
		fmt.Fprintln(out, "not ready")
		if reason := whyNot(cmd.Context(), c, model, version); reason != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), reason)
		}
		return ErrNotReady
	})
}

// whyNot returns what keeps the server, or a model of it, from being ready, or
// "" where the server does not say.
func whyNot(ctx context.Context, c *client.Client, model, version string) string {
	r, err := c.Readiness(ctx)
	if err != nil {
		if answer, ok := errors.AsType[*client.Error](err); ok &&
			(answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden) {
			return "" // the key may not see names of models
		}
		return err.Error()
	}
	if model == "" {
		return r.Reason
	}
	for _, m := range r.Models {
		if m.Name != model || version != "" && m.Version != version || m.Ready {
			continue
		}
		if m.Reason == "" {
			return "state " + m.State
		}
		return m.Reason
	}
	return fmt.Sprintf("the server has loaded no such model; 'neso index' lists those that there are: %q", model)
}

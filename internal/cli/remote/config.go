package remote

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/client"
)

// Config prints a model's configuration as a running server completed it.
func Config(out io.Writer) *cobra.Command {
	return command(&cobra.Command{
		Use:     "config MODEL[:VERSION]",
		Short:   "Show the configuration of a model of a running server; check, show and make files",
		Long:    "Prints the configuration as the server completed it, as JSON.",
		Example: "  neso config digits\n  neso config check models",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, c *client.Client, args []string) error {
		model, version, err := splitVersion(args[0])
		if err != nil {
			return err
		}
		text, err := c.ModelConfig(cmd.Context(), model, version)
		if err != nil {
			return err
		}
		return printJSON(out, text)
	})
}
